"""A sentence about how a trace differs from an earlier one."""

from __future__ import annotations

from math import prod

import numpy as np

from gradscope.analysis.identity.leaves import NamedLeaf, leaf_of
from gradscope.analysis.likeness.aspects import SameNodes
from gradscope.analysis.lookups import Ids
from gradscope.scene.readable import count, plural, shape
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, Node

NAMED = 2
"""Number of leaves with a different size that are listed."""


def summary(scopes: tuple[PageNodes, PageNodes], names: tuple[str, str], same: SameNodes) -> str:
    """Steps and backwards of both, new and gone nodes, and leaves with a different size."""
    had, has = (_length(scope) for scope in scopes)
    parts = [f"Both have {had}" if had == has else f"{names[0]} has {had}, {names[1]} {has}"]
    earlier, later = scopes
    changed = (
        ("new", _counted(later, same.only_other)),
        ("gone", _counted(earlier, same.only_one)),
    )
    parts += [f"{word}: {said}" for word, said in changed if said] or ["the same nodes and leaves"]
    grown = _grown(scopes, same)
    sizes = (
        ("larger", [said for more, said in grown if more]),
        ("smaller", [said for more, said in grown if not more]),
    )
    parts += [f"{word}: {_listed(said)}" for word, said in sizes if said]
    parts += [] if grown else ["no leaf changed its size"]
    return "; ".join(parts) + "."


def _length(scope: PageNodes) -> str:
    steps = distinct(scope.of("step"))
    said = plural(len(scope.tasks), "backward")
    known = int(np.count_nonzero(steps != NONE))
    return f"{plural(known, 'step')} with {said}" if known else said


def _counted(scope: PageNodes, nodes: Ids) -> str:
    """As in "269 nodes and 12 leaves", of those that the page shows; "" of none."""
    rows = scope.rows(nodes)
    rows = rows[rows != NONE]
    leaves = int(np.count_nonzero(scope.beside[rows]))
    kinds = ((len(rows) - leaves, "node", "nodes"), (leaves, "leaf", "leaves"))
    return " and ".join(plural(number, one, many) for number, one, many in kinds if number)


def _grown(scopes: tuple[PageNodes, PageNodes], same: SameNodes) -> list[tuple[bool, str]]:
    """The leaves whose number of elements differs: whether it grew, and their text."""
    earlier, later = scopes
    before, now = earlier.rows(same.one), later.rows(same.other)
    leaves = (before != NONE) & (now != NONE)
    leaves[leaves] = later.beside[now[leaves]]
    found = []
    for one, other in zip(before[leaves].tolist(), now[leaves].tolist(), strict=True):
        was, leaf = _leaf(earlier, one), _leaf(later, other)
        if was is None or leaf is None or prod(was.shape) == prod(leaf.shape):
            continue
        said = f"{leaf.title} {shape(was.shape)} → {shape(leaf.shape)}"
        found.append((prod(leaf.shape) > prod(was.shape), said))
    return found


def _leaf(scope: PageNodes, row: int) -> NamedLeaf | None:
    """The leaf of a row; None if its tensor is unknown."""
    found = leaf_of(scope.trace, scope.trace.table(Node).row(int(scope.ids[row])))
    return None if found is None or found.tensor == NONE else found


def _listed(said: list[str]) -> str:
    more = [f"{count(len(said) - NAMED)} more"] if len(said) > NAMED else []
    return f"{plural(len(said), 'leaf', 'leaves')} ({', '.join([*said[:NAMED], *more])})"
