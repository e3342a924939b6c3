"""A sentence about how a trace differs from an earlier one."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.likeness.aspects import SameNodes
from gradscope.analysis.lookups import Ids
from gradscope.scene.readable import plural
from gradscope.scene.viewer.nodes import PageNodes
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE


def summary(scopes: tuple[PageNodes, PageNodes], names: tuple[str, str], same: SameNodes) -> str:
    """Steps and backwards of both, and the number of new and gone nodes."""
    had, has = (_length(scope) for scope in scopes)
    parts = [f"Both have {had}" if had == has else f"{names[0]} has {had}, {names[1]} {has}"]
    earlier, later = scopes
    changed = (
        ("new", _counted(later, same.only_other)),
        ("gone", _counted(earlier, same.only_one)),
    )
    parts += [f"{word}: {said}" for word, said in changed if said]
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
