"""What keeps the house as docs/developing/architecture.md draws it, measured on its own sources."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

HOUSE = Path(__file__).parents[2]
PACKAGE = HOUSE / "gradscope"

LONGEST_FILE = 400
LONGEST_FUNCTION = 60
# Nothing is let off: split it instead.
LONG_FILES: frozenset[str] = frozenset()
LONG_FUNCTIONS: frozenset[str] = frozenset()

MOST_ENTRIES = 15
# Python's own, which say nothing of a room.
NO_ENTRIES = frozenset({"__init__.py", "__main__.py", "__pycache__", "py.typed"})
# What stands in these has PyTorch's own names.
PYTORCHS = frozenset({"runtime", "runtime/distributions", "runtime/nn/modules", "runtime/optim"})

# Folders of tests that mirror no room: what several share, and what asks about all of it.
OF_ALL_ROOMS = frozenset(
    {
        "cli",
        "faults",  # faults planted in the engine and the recorder, and what notices them
        "programs",  # random programs
        "runtime/answers",  # PyTorch's kept answers
        "runtime/core/ops/op_db",  # PyTorch's operator database
        "runtime/core/ops/samples",  # a file a family
        "runtime/programs",  # whole programs for both engines
        "runtime/rules",  # the rules of docs/engine/index.md
        "samples",
        "shared",
        "tooling",
        "matrix",  # many versions of PyTorch and Python
        "watched",  # ordinary programs, which must end watched as they end alone
        "zoo",  # scripts with planted bugs, and what is named of them
    }
)

LARGEST_CIRCLE = 5
"""Files that import one another in a circle, imports inside functions counted."""

# Where a user's own code runs, and whatever it raises has to be carried on to the one who called.
CATCHES_EVERYTHING = frozenset(
    {
        "cli.py",
        "analysis/report.py",  # a part of a report, of which the others do not know
        "debug/live/commands.py",  # what somebody has typed, and is shown
        "debug/live/console.py",  # likewise
        "debug/live/trial.py",  # a hook of the program, in what is tried
        "record/script/handlers.py",  # what a signal handler raised in our code is raised after it
        "debug/dap/server.py",  # nonsense of a client, or a fault of ours: its session goes on
        "callbacks/training.py",  # a fault of ours, which must not reach the training
        "record/script/exits.py",  # what a script wants done at its end
        "record/process/children/started_ranks.py",  # a fault of ours: the rank runs unrecorded
        "record/run_script.py",  # the script itself
        "commands/debugging/laws/called_twice.py",  # a module of the script, and copies of it
        "record/script/tracebacks.py",  # its excepthook
        "runtime/_utils.py",  # the constructor of an error of the user's
        "runtime/core/autograd/engine/engine.py",
        "runtime/core/autograd/custom/function.py",
        "runtime/core/autograd/modes/grad_mode.py",  # thrown into a decorated generator
        "runtime/fast/compiling/compiled.py",  # what a spoilt cache makes pickle raise
        "runtime/fast/threads/spread.py",  # what a part raised on another thread
        "runtime/distributed/exchange/work.py",  # what an exchange raised, for who waits for it
        "runtime/futures.py",  # what a callback raised, for who waits for its future
        "runtime/multiprocessing/spawn.py",  # what a process ran, for who started it
        "runtime/nn/modules/module_parts/calls.py",  # a hook after an error that is raised anyway
        "runtime/nn/modules/module_parts/state.py",  # what copying a state into a parameter raised
        "runtime/core/autograd/engine/ready_queue.py",  # what a watcher raised
        "runtime/core/autograd/engine/workers.py",  # what a node raised on another thread
        "runtime/utils/data/_utils/worker.py",  # a dataset, in another process
        # A fault of ours, which must not reach the program that is watched.
        "record/acts/rerun.py",  # a forward of the program's, run again when all is over
        "record/at_start.py",
        "debug/live/ends.py",
        "watch/creation.py",
        "watch/called/results.py",
        "watch/watched_engine.py",
        "watch/in_place/faults.py",
        "watch/hooks/module_calls.py",
        "watch/runs/__init__.py",
        "watch/watcher.py",
    }
)

VIEWERS = ("trace", "analysis", "scene", "render", "debug")


def sources() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@dataclass
class Contents:
    """What the tests ask of a file, which is parsed once: to keep all trees takes too much."""

    functions: list[tuple[str, int]] = field(default_factory=list)  # and how many lines
    imports: list[tuple[str, bool, bool]] = field(default_factory=list)  # in functions; for types
    catch_everything: list[int] = field(default_factory=list)  # lines
    calls: list[tuple[str, int]] = field(default_factory=list)  # of CALLS, and their lines


CALLS = frozenset({"exit", "id", "print", "sys.exit"})


@cache
def contents(path: Path) -> Contents:
    found = Contents()
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while waiting:
        node, inside, for_types = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
            inside = True
        elif isinstance(node, ast.If):
            for_types = for_types or "TYPE_CHECKING" in ast.unparse(node.test)
        elif isinstance(node, ast.Import):
            found.imports += [(alias.name, inside, for_types) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            found.imports += [(name, inside, for_types) for name in names]
        elif isinstance(node, ast.ExceptHandler):
            if catches_everything(node) and not only_raises_again(node):
                found.catch_everything.append(node.lineno)
        elif isinstance(node, ast.Call) and called(node) in CALLS:
            found.calls.append((called(node), node.lineno))
        waiting += [(child, inside, for_types) for child in ast.iter_child_nodes(node)]
    return found


def called(call: ast.Call) -> str:
    simple = isinstance(call.func, ast.Name) or (
        isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
    )
    return ast.unparse(call.func) if simple else ""


def catches_everything(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(
        kind is None or (isinstance(kind, ast.Name) and kind.id in {"Exception", "BaseException"})
        for kind in caught
    )


def only_raises_again(handler: ast.ExceptHandler) -> bool:
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def packages_imported_by(path: Path) -> set[str]:
    """The packages a file imports, wherever in it; gradscope's own as `gradscope.<room>`."""
    names = (name.split(".") for name, _, _ in contents(path).imports)
    return {".".join(parts[: 2 if parts[0] == "gradscope" else 1]) for parts in names}


def test_the_sources_are_found() -> None:
    assert "trace/schema/events.py" in {name_of(path) for path in sources()}


def test_no_file_is_longer_than_a_person_reads_at_once() -> None:
    too_long = {
        name_of(path): lines
        for path in sources()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
        and name_of(path) not in LONG_FILES
    }

    assert too_long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = {
        place: lines
        for path in sources()
        for function, lines in contents(path).functions
        if lines > LONGEST_FUNCTION
        and (place := f"{name_of(path)}::{function}") not in LONG_FUNCTIONS
    }

    assert too_long == {}


def test_the_lists_of_exceptions_are_empty() -> None:
    assert not LONG_FILES | LONG_FUNCTIONS


def test_no_folder_holds_more_than_a_person_takes_in_at_once() -> None:
    crowded = {
        name: entries
        for folder in [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
        if (name := folder.relative_to(PACKAGE).as_posix()) not in PYTORCHS
        and "__pycache__" not in name
        and (entries := sum(each.name not in NO_ENTRIES for each in folder.iterdir()))
        > MOST_ENTRIES
    }

    assert crowded == {}


def test_the_tests_stand_where_what_they_test_does() -> None:
    tests = HOUSE / "tests"
    rooms = {path.parent.relative_to(tests).as_posix() for path in tests.rglob("*.py")} - {"."}
    homeless = {
        room
        for room in rooms
        if not (PACKAGE / room).is_dir()
        and not any(room == other or room.startswith(f"{other}/") for other in OF_ALL_ROOMS)
    }
    crowded = {
        room: entries
        for room in rooms - PYTORCHS - {"runtime/core/ops/samples"}
        if (entries := sum(each.name != "__pycache__" for each in (tests / room).iterdir()))
        > MOST_ENTRIES
    }

    assert (homeless, crowded) == (set(), {})


def circles(*, inside_functions: bool) -> list[list[str]]:
    """Files that import one another, directly or by others."""
    modules = {name_of(path).removesuffix(".py").removesuffix("/__init__") for path in sources()}
    imports = nx.DiGraph()
    for path in sources():
        home = name_of(path).removesuffix(".py").removesuffix("/__init__")
        for target in modules_imported_by(path, inside_functions=inside_functions):
            while target not in modules and "/" in target:
                target = target.rpartition("/")[0]
            if target in modules and target != home:
                imports.add_edge(home, target)
    found = nx.strongly_connected_components(imports)
    return [sorted(each) for each in found if len(each) > 1]


def modules_imported_by(path: Path, *, inside_functions: bool) -> set[str]:
    """The files of ours, or names in them, that a file imports: `runtime/core/probe`."""
    names = (
        name.removeprefix("gradscope.")
        for name, inside, for_types in contents(path).imports
        if name.startswith("gradscope.") and not for_types and (inside_functions or not inside)
    )
    return {name.replace(".", "/") for name in names}


def test_no_files_import_one_another_when_they_are_read() -> None:
    assert circles(inside_functions=False) == []


def test_imports_inside_functions_make_no_large_circle() -> None:
    assert [each for each in circles(inside_functions=True) if len(each) > LARGEST_CIRCLE] == []


def test_no_identity_in_a_trace_or_a_picture_comes_from_an_address() -> None:
    calls = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if name_of(path).startswith(tuple(f"{room}/" for room in VIEWERS))
        for name, line in contents(path).calls
        if name == "id"
    ]

    assert calls == [], "ids come from counters: the same trace in, the same bytes out"


def test_only_the_command_line_and_who_runs_a_users_code_catches_everything() -> None:
    """What cleans up and then raises the same exception again swallows nothing."""
    places = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if name_of(path) not in CATCHES_EVERYTHING
        for line in contents(path).catch_everything
    ]

    assert places == []


def test_only_the_command_line_prints_or_exits() -> None:
    places = [
        f"{name_of(path)}:{line}"
        for path in sources()
        if name_of(path) not in {"cli.py", "__main__.py"}
        for name, line in contents(path).calls
        if name in {"print", "sys.exit", "exit"}
    ]

    assert places == []


def test_the_trace_needs_only_numpy_and_codecs() -> None:
    allowed = {"gradscope.errors", "gradscope.trace", "numpy", "orjson", "zstandard"}
    imported = {
        (name_of(path), package)
        for path in sources()
        if name_of(path).startswith("trace/")
        for package in packages_imported_by(path)
    }

    assert {
        (name, package)
        for name, package in imported
        if package not in allowed and package not in sys.stdlib_module_names
    } == set()


@pytest.mark.parametrize(
    ("package", "rooms"),
    [
        ("numba", ("runtime/fast/",)),
        ("llvmlite", ("machine_code/", "runtime/fast/tiles/")),
    ],
)
def test_compilers_have_homes(package: str, rooms: tuple[str, ...]) -> None:
    homes = {
        name_of(path).rpartition("/")[0]
        for path in sources()
        if packages_imported_by(path) & {package}
    }

    assert homes
    assert all(f"{each}/".startswith(rooms) for each in homes)


def test_rooms_import_one_way() -> None:
    pytest.importorskip("importlinter", reason="import-linter comes with the extra `dev`")

    outcome = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=HOUSE,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )

    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


HEAVY = {"numba", "llvmlite", "torch", "gradscope.runtime", "gradscope.record"}


@pytest.mark.parametrize(
    ("line", "heavy"),
    [
        ("import gradscope", HEAVY | {"numpy", "rich"}),
        ("import gradscope.cli", HEAVY | {"numpy", "rich"}),
        ("import gradscope.analysis, gradscope.scene, gradscope.render", HEAVY),
        ("from gradscope.trace.load_save import load", HEAVY),
    ],
)
def test_opening_a_trace_loads_neither_numba_nor_torch(line: str, heavy: set[str]) -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", f"{line}\nimport sys\nprint(sorted({heavy} & set(sys.modules)))"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (outcome.stdout, outcome.stderr) == ("[]\n", "")
