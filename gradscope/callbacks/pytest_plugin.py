"""The pytest plugin: the mark and the fixture `gradscope`. See docs/guide/ci.md.

pytest imports this module at every start, so it imports nothing else before a test needs it.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gradscope.callbacks.testing import BlockRecorder

NAMES = ("auto", "torch", "gradscope")
ON = (
    "engine that `import torch` returns and that is recorded: torch, gradscope, or auto (PyTorch "
    "if installed). Default: imports are unchanged, and the imported engine is recorded"
)
MARK = (
    "gradscope(no_nan, all_params_reached, max_saved, same_graph, rules, level, on): record the "
    "test and fail it if a check fails; without arguments, on any error or warning"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gradscope")
    group.addoption("--gradscope-on", choices=NAMES, help=ON)
    group.addoption(
        "--gradscope-update", action="store_true", help="write the goldens of same_graph= again"
    )
    parser.addini("gradscope_on", ON)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARK)
    on = config.getoption("--gradscope-on") or config.getini("gradscope_on")
    if on:
        from gradscope.callbacks.testing import stage

        config.add_cleanup(stage(on))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    mark = item.get_closest_marker("gradscope")
    if mark is None:
        return (yield)
    from gradscope.callbacks.testing import marked

    return (yield from marked(item, mark))


@pytest.fixture
def gradscope(request: pytest.FixtureRequest) -> BlockRecorder:
    """Record blocks of the test: `with gradscope.record() as recorded: …`."""
    from gradscope.callbacks.testing import SCOPE, BlockRecorder

    scope = BlockRecorder(request.node)
    request.node.stash[SCOPE] = scope
    return scope
