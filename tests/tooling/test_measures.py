"""How large classes and circles of imports may be, and how often a name may be given.

What was larger before these measures is listed here with its size. The lists may only become
shorter: a test fails for anything new, and for an entry that has become needless.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx as nx

PACKAGE = Path(__file__).parents[2] / "gradscope"

MOST_ATTRIBUTES = 20
MOST_METHODS = 25
LARGEST_CIRCLE = 8
MOST_FILES_OF_A_NAME = 3

LARGE_CLASSES = {
    "debug/screen/app.py::Debugger": (13, 38),
    "record/from_runtime/cold/catalog.py::Catalog": (26, 22),
    "runtime/core/autograd/engine/graph_task.py::GraphTask": (28, 2),
    "runtime/core/state/thread.py::ThreadState": (39, 8),
    "runtime/fast/capture/plan/plan.py::ReplayPlan": (25, 16),
    "watch/native/native_walker.py::NativeWalker": (27, 16),
}
"""Attributes and methods of classes that have more than they should."""

REPEATED_CLASSES = """
Finding Finding Generator Generator GraphTask GraphTask Node Node Node Storage Storage Tensor
Tensor
"""
"""Names of classes that several files define, each as often as it is defined."""

# Two names of PyTorch's in runtime/core, with PyTorch's methods.
PYTORCHS_CLASSES = frozenset({"Generator", "Tensor"})


def is_pytorchs(file: str) -> bool:
    """Whether a file holds what scripts name: PyTorch has chosen its names."""
    ours = ("runtime/core/", "runtime/fast/")
    return file.startswith("runtime/") and not file.startswith(ours)


@dataclass
class Contents:
    """What the tests ask of a file: to keep all trees takes too much memory."""

    classes: dict[str, tuple[int, int]]  # at the top level: how many attributes and methods
    imports: set[str]


@cache
def files() -> dict[str, Contents]:
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        classes = {
            node.name: (len(attributes(node)), len(methods(node)))
            for node in tree.body
            if isinstance(node, ast.ClassDef)
        }
        found[path.relative_to(PACKAGE).as_posix()] = Contents(classes, imported(tree))
    return found


def our_files() -> dict[str, Contents]:
    return {file: held for file, held in files().items() if not is_pytorchs(file)}


def attributes(node: ast.ClassDef) -> set[str]:
    """What is declared in the body of a class, and what its methods assign to `self`."""
    found = set()
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found.add(each.target.id)
        elif isinstance(each, ast.Assign):
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.FunctionDef):
            found |= {
                inner.attr
                for inner in ast.walk(each)
                if isinstance(inner, ast.Attribute)
                and isinstance(inner.ctx, ast.Store)
                and isinstance(inner.value, ast.Name)
                and inner.value.id == "self"
            }
    return found - {"__slots__"}


def methods(node: ast.ClassDef) -> set[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return {each.name for each in node.body if isinstance(each, kinds)}


def test_classes_are_small() -> None:
    """Rows of tables and the like, which do nothing, have as many columns as there are facts."""
    large = {
        f"{file}::{name}": size
        for file, held in our_files().items()
        for name, size in held.classes.items()
        if (size[0] > MOST_ATTRIBUTES and size[1]) or size[1] > MOST_METHODS
        if name not in PYTORCHS_CLASSES
    }

    assert set(large) == set(LARGE_CLASSES)
    assert {
        name: size
        for name, size in large.items()
        if any(now > before for now, before in zip(size, LARGE_CLASSES[name], strict=True))
    } == {}


def circles() -> list[list[str]]:
    """Files that import one another, also for types alone or inside functions."""
    modules = {file.removesuffix(".py").removesuffix("/__init__") for file in files()}
    imports = nx.DiGraph()
    for file, held in files().items():
        home = file.removesuffix(".py").removesuffix("/__init__")
        for target in held.imports:
            while target not in modules and "/" in target:
                target = target.rpartition("/")[0]
            if target in modules and target != home:
                imports.add_edge(home, target)
    return [sorted(each) for each in nx.strongly_connected_components(imports)]


def imported(tree: ast.Module) -> set[str]:
    """The files of ours, or names in them, that a file imports: `trace/table/Table`."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    ours = (name.removeprefix("gradscope.") for name in names if name.startswith("gradscope."))
    return {name.replace(".", "/") for name in ours}


def test_no_circle_of_imports_is_large() -> None:
    large = {each[0]: len(each) for each in circles() if len(each) > LARGEST_CIRCLE}

    assert large == {}


def test_a_class_name_means_one_thing() -> None:
    """Names with an underscore are private to their files."""
    names = Counter(name for held in our_files().values() for name in held.classes)
    repeated = {name: n for name, n in names.items() if n > 1 and not name.startswith("_")}

    assert repeated == dict(Counter(REPEATED_CLASSES.split()))


def test_no_file_name_is_used_often() -> None:
    names = Counter(file.rpartition("/")[2] for file in our_files())
    often = {name: n for name, n in names.items() if n > MOST_FILES_OF_A_NAME}

    assert {name: n for name, n in often.items() if not name.startswith("__")} == {}
