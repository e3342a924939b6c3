"""Runs the rest of a backward twice: unchanged, and with gradients replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradscope.debug.live.numbers import STATISTICS
from gradscope.errors import GradscopeError, UsageError
from gradscope.record.notes.local_names import leaves_behind
from gradscope.scene.answers.answer import Answer, Topic, filled
from gradscope.scene.readable import plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gradscope.debug.live.walk import LiveWalk

FAR = 100_000
"""Largest number of nodes that are searched for leaves."""


class FailedTrialError(GradscopeError):
    """The trial raised an exception."""

    slug = "failed-trial"


@dataclass(frozen=True, slots=True)
class GradientChange:
    """The change of one leaf's gradient."""

    name: str
    as_is: Any  # an array; None: no gradient arrived
    other: Any

    @property
    def differs(self) -> float:
        """The largest difference; NaN if one of them is not finite."""
        if self.as_is is None or self.other is None:
            return 0.0 if self.as_is is self.other else float("inf")
        with np.errstate(all="ignore"):
            same = np.array_equal(self.as_is, self.other, equal_nan=True)
            return 0.0 if same else float(np.abs(self.as_is - self.other).max(initial=0))

    @property
    def said(self) -> str:
        most = f", largest difference {self.differs:.3g}" if np.isfinite(self.differs) else ""
        return f"{self.name}: norm {_norm(self.as_is)} becomes {_norm(self.other)}{most}"


def trial(walk: LiveWalk, values: Mapping[int, Any]) -> Answer:
    """The gradients of all leaves reachable from the current node, unchanged and with replacements.

    Nothing is recorded, no `.grad` is written, and saved values stay. The program's hooks are
    called.
    """
    place, places = walk.place_now, walk.live.places
    before = place.kind == "begins"
    grads = list(place.given if before else place.made)
    edges = [(place.node, nr) for nr in range(len(grads))] if before else place.node.next_functions
    leaves, all_ = leaves_behind([place.node], FAR)
    if not leaves:
        raise UsageError(
            "no leaf receives a gradient from this node, so there is nothing to compare"
        )
    other = [values.get(nr, grad) for nr, grad in enumerate(grads)]
    with places.aside():
        both = [_run(places.torch, edges, each, leaves) for each in (grads, other)]
    changes = [
        GradientChange(walk.named(leaf), *(None if g is None else places.numbers(g) for g in pair))
        for leaf, *pair in zip(leaves, *both, strict=True)
    ]
    return _answer(sorted(changes, key=lambda each: _rank(each.differs)), all_=all_)


def _run(torch: Any, edges: Any, grads: list[Any], leaves: list[Any]) -> Any:
    edge = torch.autograd.graph.GradientEdge
    wanted = [
        (edge(node, nr), grad)
        for (node, nr), grad in zip(edges, grads, strict=True)
        if node is not None and grad is not None
    ]
    if not wanted:
        return [None] * len(leaves)
    roots, given = zip(*wanted, strict=True)
    try:
        return torch.autograd.grad(
            roots, leaves, grad_outputs=given, retain_graph=True, allow_unused=True
        )
    except Exception as error:  # noqa: BLE001  a hook of the program may raise anything
        raise FailedTrialError(f"{type(error).__name__}: {error}") from None


def _rank(differs: float) -> tuple[bool, float]:
    return differs == differs, -differs  # noqa: PLR0124 -- a NaN comes first


def _answer(changes: list[GradientChange], *, all_: bool) -> Answer:
    lines = tuple(each.said for each in changes if each.differs != 0)
    same = [each.name for each in changes if each.differs == 0]
    of = plural(len(changes), "leaf", "leaves")
    return Answer(
        f"{len(lines):,} of {of} reachable from this node would receive a different gradient",
        sections=filled(
            Topic("changed, largest difference first", lines), Topic("unchanged", tuple(same))
        ),
        notes=(
            *(
                []
                if all_
                else [f"only leaves within {FAR:,} nodes were checked; there are more nodes"]
            ),
            "this was only a trial: replace does it when the program goes on",
        ),
    )


def _norm(array: Any) -> str:
    if array is None:
        return "None"
    with np.errstate(all="ignore"):
        return f"{STATISTICS['norm'](array):.4g}"
