#!/bin/sh
# Build the wheel, install it alone in a new virtual environment, and run it from outside the checkout.
set -eu
cd "$(dirname "$0")/.."
python=$PWD/${VENV:-.venv}/bin/python
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$python" -m pip wheel -qq --no-deps --wheel-dir "$scratch" .
"$python" -m venv "$scratch/venv"
"$scratch/venv/bin/python" -m pip install -qq "$scratch"/gradscope-*.whl
cd "$scratch"
venv/bin/gradscope --help
venv/bin/python - <<'END'
import sys
import gradscope

assert "site-packages" in gradscope.__file__, gradscope.__file__
assert not {"numba", "torch"} & set(sys.modules), "importing gradscope must load neither"
END
echo "wheel: ok"
