"""How the files of the recorder lean on each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import networkx as nx

import gradscope.record

HOUSE = Path(gradscope.record.__file__).parents[2]


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module named in an import, those inside functions too, but not those for types only."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        yield from imported(node)


def test_no_file_of_the_recorder_needs_itself_by_way_of_others() -> None:
    """The probe, the catalog and the rows of graph tasks did, by imports inside functions."""
    files = {
        ".".join(path.relative_to(HOUSE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (HOUSE / "gradscope" / "record").rglob("*.py")
    }
    needs: nx.DiGraph = nx.DiGraph()
    for name, path in files.items():
        found = {*imported(ast.parse(path.read_text(encoding="utf-8")))} & files.keys()
        needs.add_edges_from((name, each) for each in found - {name})

    circles = [sorted(each) for each in nx.strongly_connected_components(needs)]
    assert len(needs.edges) > 50
    assert [each for each in circles if len(each) > 1] == []
