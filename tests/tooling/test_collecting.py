"""How tests are collected, and what is drawn for them, in a run of several workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.shared.collecting import import_in_turn
from tests.shared.searching import SEARCHING


def worker(number: int, house: Path, *asked: str) -> Any:
    """The settings of one of two workers."""
    return SimpleNamespace(
        workerinput={"workerid": f"gw{number}", "workercount": 2},
        args=[*asked],
        rootpath=house,
        invocation_params=SimpleNamespace(dir=house),
        hook=SimpleNamespace(pytest_ignore_collect=lambda collection_path, config: None),
    )


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in "abcd":
        path = tmp_path / "turns" / f"test_{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"from sys import stdout\nstdout.write('{name}')\n")
    (tmp_path / "turns" / "test_b.py").write_text("import sys\nsys.stdout.write('b')\n1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "turns"]:
        del sys.modules[name]


@pytest.mark.parametrize(("number", "order"), [(0, "abcd"), (1, "cdab")])
def test_each_worker_begins_with_other_files_and_imports_all(
    number: int, order: str, house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_in_turn(worker(number, house, "turns"))

    assert capsys.readouterr().out == order
    assert [f"turns.test_{name}" in sys.modules for name in "abcd"] == [True, False, True, True]


def test_only_what_was_asked_for_is_imported(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_in_turn(
        worker(0, house, "turns/test_c.py::test_one", str(house / "turns" / "test_a.py"))
    )

    assert capsys.readouterr().out == "ac"


def test_what_is_left_out_is_not_imported(house: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asking = worker(0, house, "turns")
    asking.hook.pytest_ignore_collect = lambda collection_path, config: (
        collection_path.name == "test_c.py" or None
    )
    import_in_turn(asking)

    assert capsys.readouterr().out == "abd"


PLACES = (
    "tests/trace/test_trace.py",
    "tests/runtime/rules/test_hooks.py",
    "tests/record/from_runtime/replays/test_replays.py",
    "tests/runtime/nn",
    "tests/runtime/nn/test_module.py",
)


@pytest.mark.parametrize(
    ("engine", "named", "left_out"),
    [
        ("core", "tests", PLACES[2:]),
        ("core", "tests/runtime/nn/test_module.py::test_one", PLACES[2:3]),
        ("core", "tests/record", PLACES[3:]),
        ("core", "", PLACES[2:]),
        ("all", "tests", ()),
        ("only", "tests", PLACES[:1]),
    ],
)
def test_of_the_engines_tests_only_the_core_is_run_unless_more_is_asked_for(
    engine: str, named: str, left_out: tuple[str, ...], pytestconfig: pytest.Config
) -> None:
    house = pytestconfig.rootpath
    asking = worker(0, house, named)
    asking.getoption = {"--engine": engine}.__getitem__
    ignore = pytestconfig.pluginmanager.get_plugin(str(house / "tests/conftest.py"))

    ignored = [
        each
        for each in PLACES
        if ignore.pytest_ignore_collect(collection_path=house / each, config=asking)
    ]
    assert ignored == [*left_out]


def test_the_core_is_there(pytestconfig: pytest.Config) -> None:
    plugin = pytestconfig.pluginmanager.get_plugin(str(pytestconfig.rootpath / "tests/conftest.py"))

    named = [*plugin.CORE, *plugin.ENGINE]
    assert [each for each in named if not (pytestconfig.rootpath / each).exists()] == []
    assert all(each.startswith(plugin.ENGINE) for each in plugin.CORE)


def test_one_process_imports_what_it_collects_when_it_collects_it(
    house: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_in_turn(worker(0, house, "turns").__class__(args=["turns"]))

    assert not capsys.readouterr().out


@pytest.mark.skipif(SEARCHING, reason="a search draws whatever there is")
def test_examples_do_not_depend_on_which_sources_are_loaded() -> None:
    providers = pytest.importorskip("hypothesis.internal.conjecture.providers")

    assert len(providers._get_local_constants()) == 0
