"""What every test can rely on: the same terminal, the same seeds, PyTorch where it is promised."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable, Generator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from tests.shared import collecting, searching
from tests.shared.browsing import chromium
from tests.shared.processes import ended_with_the_test, hear_signals

__all__ = ["chromium"]

# One thread per test process: the tests already run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# What a person's terminal says must not decide what a test sees.
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "PAGER"):
    os.environ.pop(_name, None)

hear_signals()
searching.set_up()

ENGINE = (
    "tests/runtime",
    "tests/faults/engine",
    "tests/record/from_runtime/test_every_operation.py",
    "tests/record/from_runtime/replays",  # captured steps, as recordings see them
)
"""Where the engine's tests are. A run of all of `tests` runs their core (`make test`); all of them
run with `--engine all` (CI), and alone with `--engine only` (`make test-engine`).
"""
CORE = (
    "tests/runtime/test_whole_programs.py",
    "tests/runtime/core/autograd",
    "tests/runtime/core/graph",
    "tests/runtime/core/tensors",
    "tests/runtime/rules",  # of docs/engine/index.md
)
"""The engine's core: what every other test of a program stands on."""

_REQUIRE_TORCH = os.environ.get("GRADSCOPE_REQUIRE_TORCH", "") not in {"", "0"}
_HAS_TORCH = find_spec("torch") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-answers",
        action="store_true",
        help="keep what PyTorch answers now (make answers); review it in the diff",
    )
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="rewrite the golden files with what came out; review them in the diff",
    )
    parser.addoption(
        "--sample",
        metavar="NAME",
        help="of samples of operations only this one (mul-3), or only this operation's (mul)",
    )
    parser.addoption(
        "--engine",
        choices=["core", "all", "only"],
        default="core",
        help="of the engine's tests run the core and those that are named; all; only all of them",
    )
    parser.addoption(
        "--shuffle",
        metavar="SEED",
        type=int,
        help="run the tests in another order, the same for the same seed",
    )


def pytest_configure() -> None:
    if _REQUIRE_TORCH and not _HAS_TORCH:
        message = (
            "GRADSCOPE_REQUIRE_TORCH is set and torch is not installed: tools/venv.sh dev torch"
        )
        raise pytest.UsageError(message)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    gc.disable()
    collecting.import_in_turn(session.config)


def pytest_collection_finish(session: pytest.Session) -> None:
    """What is collected stays. Looking through all of it for garbage takes 0.3 s, which a test that
    asks for that would wait for.
    """
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what is not asked for of the engine's tests, or of all others."""
    which = config.getoption("--engine")
    engine = [config.rootpath / each for each in ENGINE]
    if which == "only" and not any(_meet(collection_path, each) for each in engine):
        return True
    if which != "core" or not any(collection_path.is_relative_to(each) for each in engine):
        return None
    named = {config.invocation_params.dir / each.partition("::")[0] for each in config.args}
    named -= {config.rootpath, config.rootpath / "tests"}
    if any(_meet(collection_path, each) for each in named):
        return None
    core = [config.rootpath / each for each in CORE]
    return None if any(_meet(collection_path, each) for each in core) else True


def _meet(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Of what compares with PyTorch no samples are collected where there is none: it is one item,
    which is left out.
    """
    if _HAS_TORCH or not collector.istestfunction(obj, name):
        return None
    item: pytest.Item = pytest.Function.from_parent(collector, name=name)
    return None if item.get_closest_marker("torch") is None else [item]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What compares with PyTorch is left out, and counted, where there is none; what Hypothesis
    draws is a search without further ado.
    """
    if not _HAS_TORCH:
        compare = [item for item in items if item.get_closest_marker("torch") is not None]
        if compare:
            config.hook.pytest_deselected(items=compare)
            items[:] = [item for item in items if item.get_closest_marker("torch") is None]
    seed = config.getoption("--shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)
    for item in items:
        if getattr(getattr(item, "function", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.search)


def pytest_report_header() -> str:
    """How much is run."""
    if _HAS_TORCH:
        return "PyTorch is installed: comparisons with it are run, too"
    return "PyTorch is not installed: comparisons with it are left out (tools/venv.sh dev torch)"


@cache
def _seed_only_what_is_there(torch: ModuleType) -> None:
    """PyTorch notes all frames that seed devices which may yet come: 4 ms a call."""
    for kind in (torch.cuda, torch.xpu, torch.mtia):
        if not kind.is_available():
            kind.manual_seed_all = lambda seed: None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if "gradscope" not in str(getattr(sys.modules.get("torch"), "__file__", "gradscope")):
        _seed_only_what_is_there(sys.modules["torch"])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where PyTorch is required, a comparison that is skipped is a failure."""
    report = yield
    required = _REQUIRE_TORCH and item.get_closest_marker("torch") is not None
    if required and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"a comparison with PyTorch was skipped: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def short_road() -> Generator[None]:
    """Whatever devices and modes a test used, the next one begins on the short road."""
    yield
    state = sys.modules.get("gradscope.runtime.core.state.thread")
    if state is None:
        return
    threads = state.ThreadState
    if threads.devices or threads.anomaly_mode != (False, True):
        threads.devices, threads.anomaly_mode = False, (False, True)
        for each in list(threads.all):
            each.anomaly, each.check_nan = threads.anomaly_mode
            each.refresh()


@pytest.fixture(autouse=True)
def no_process_stays_behind() -> Generator[None]:
    """What a test starts ends with it, however it ends."""
    with ended_with_the_test():
        yield


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compare a text with a file beside the test, `goldens/<name>`, whole and byte by byte."""
    folder = Path(str(request.path)).parent / "goldens"

    def compare(name: str, text: str) -> None:
        path = folder / name
        if request.config.getoption("--update-goldens"):
            folder.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.exists(), f"no golden {path}; make it with --update-goldens and review it"
        assert text == path.read_text(encoding="utf-8")

    return compare
