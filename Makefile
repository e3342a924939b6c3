# Each target installs what it needs, on a machine with Python 3.11 to 3.14, pip and make.
#
#   PYTHON=python3.12       which interpreter makes the virtual environment
#   VENV=.venv-3.12         where it is (a path without spaces, inside the checkout)
#   WORKERS=4               how many processes run the tests
#   SOURCE=pytorch/test/…    where the source of torch_openreg is
#   TIMES=500               how many times as long `make search` looks as `make test` does
#   ARGS='tests/trace -x'   more arguments for pytest, the benchmarks or the demo

VENV ?= .venv
# One more than the number of cores, because tests wait for processes and sleep.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
TIMES ?= 20
ARGS ?=
BIN = $(VENV)/bin
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 --dist worksteal

export VENV PYTHON
export PYTHONNOUSERSITE := 1
# Inside the checkout, so that no home directory is needed.
export NUMBA_CACHE_DIR ?= $(CURDIR)/$(VENV)/cache/numba
# Without cached bytecode, every process compiles 230 files again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test test-engine answers browser programs matrix openreg search pythons check format-check lint types imports format bench docs site wheel fresh clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1	/p' Makefile

setup:
	@sh tools/venv.sh

setup-dev:
	@sh tools/venv.sh dev

demo: setup ## record a small program, inspect it and draw it
	@sh tools/demo.sh $(ARGS)

test: setup-dev ## run the tests, with only the core tests of the engine
	$(PYTEST) $(ARGS)

test-engine: setup-dev ## run all tests of the engine
	$(PYTEST) --engine only $(ARGS)

answers: ## update the stored answers of PyTorch; review the diff
	@sh tools/venv.sh dev torch
	$(BIN)/python -m pytest -q --engine all -m "answers and torch" --update-answers $(ARGS)

browser: site ## check the types of the page's scripts, and try page and site in Chromium (apt-get install chromium)
	@sh tools/venv.sh dev browser
	@sh tools/axe.sh
	@sh tools/scripts.sh
	$(BIN)/python -m pytest -n $(WORKERS) -m browser $(ARGS)

programs: VENV = .venv-programs
programs: ## run programs of other packages alone and recorded; prints a table of times and memory; needs gcc
	@sh tools/venv.sh dev torch programs
	$(BIN)/python -m tests.watched --workers $(WORKERS) $(ARGS)

matrix: ## run the same programs on many versions of PyTorch and Python, and compare; needs gcc
	@sh tools/venv.sh dev torch
	$(BIN)/python -m tests.matrix $(ARGS)

openreg: VENV = .venv-openreg
openreg: ## run the tests of devices on PyTorch's torch_openreg; SOURCE is its folder; needs cmake and a C++ compiler
	@sh tools/venv.sh dev torch
	@sh tools/openreg.sh "$(SOURCE)" -n $(WORKERS) $(ARGS)

search: setup-dev ## run the random tests longer, with new seeds
	GRADSCOPE_SEARCH=$(TIMES) $(PYTEST) --engine all -m search $(ARGS)

pythons: ## run part of the tests on each of Python 3.12, 3.13 and 3.14 that is installed
	@sh tools/pythons.sh $(ARGS)

check: ARGS = --engine all
check: test format-check lint types imports ## run all tests and static checks

format-check: setup-dev
	$(BIN)/python -m ruff format --check .

lint: setup-dev
	$(BIN)/python -m ruff check .

types: setup-dev
	$(BIN)/python -m mypy

imports: setup-dev
	$(BIN)/lint-imports

format: setup-dev ## format the code and apply the fixes of the linter
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: setup-dev ## run the benchmarks (see bench/README.md)
	$(BIN)/python -m bench $(ARGS)

docs: setup-dev ## rewrite generated pages, the gallery, and the outputs that pages show
	$(BIN)/python tools/docs/reference.py
	$(BIN)/python tools/docs/gallery.py
	$(BIN)/python tools/docs/figures.py
	$(BIN)/python tools/docs/sessions.py

site: ## build the documentation as a site, in .venv/site
	@sh tools/venv.sh docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs $(VENV)/site
	@echo "open $(VENV)/site/index.html"

wheel: setup-dev ## build the wheel and test it in a new virtual environment
	@sh tools/wheel.sh

fresh: ## run the README's commands in a fresh clone with an empty home
	@sh tools/fresh.sh $(ARGS)

clean: ## remove everything these targets created
	rm -rf $(VENV) .venv-programs .venv-openreg demo .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
