"""Births that have one cause: out of one Inf many a NaN is born, and none is a bug of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradscope.analysis.nonfinite.lineage import Finiteness
from gradscope.trace.schema import NONE, Node, Place
from gradscope.trace.trace import Trace

if TYPE_CHECKING:
    from gradscope.analysis.nonfinite.births import Birth

OVERFLOWS = frozenset((
    "AccumulateGrad", "AddmmBackward0", "BaddbmmBackward0", "BmmBackward0", "ConvolutionBackward0",
    "DotBackward0", "ExpandBackward0", "LinearBackward0", "MmBackward0", "MvBackward0",
    "MulBackward0", "SumBackward0", "SumBackward1",
))  # fmt: skip
"""Nodes whose gradient is Inf only since it is too large: in one backward for one reason."""


class Causes:
    """Says with which birth it began, birth after birth in the order of time."""

    def __init__(self, trace: Trace) -> None:
        nodes = trace.table(Node)
        self._op_of = dict(zip(nodes["id"].tolist(), nodes["op"].tolist(), strict=True))
        self._names = dict(zip(nodes["id"].tolist(), nodes["name"].tolist(), strict=True))
        self._text = trace.text
        self._of_ops: dict[int, int] = {}  # of calls whose result was not finite
        self._overflows: dict[int, int] = {}  # of backwards in which gradients grew too large
        self._harm_of: dict[int, int] = {}  # the first that came of what may be meant, as a mask

    def of_birth(
        self, birth: Birth, operands: Iterable[Finiteness | None], *, may_be_given: bool
    ) -> int:
        """The value with which it began; its own, if nothing was there before.

        An Inf that a program may have come with, as a mask of −Inf, is no cause of what is born
        out of it: the first of that is the cause of the rest.
        """
        if may_be_given:
            self._harm_of[birth.value] = NONE
        cause = NONE
        if birth.from_inf:
            cause = inherited(operands)
            if cause in self._harm_of:
                if self._harm_of[cause] == NONE:
                    self._harm_of[cause] = birth.value
                cause = self._harm_of[cause]
        elif birth.place is Place.NODE_OUTPUT:
            cause = self._of_ops.get(self._op_of.get(birth.node, NONE), NONE)
        if cause == NONE and birth.kind == "Inf" and self._is_overflow(birth):
            cause = self._overflows.setdefault(birth.task, birth.value)
        if cause == NONE:
            cause = birth.value
        if birth.place is Place.OP_OUTPUT:
            self._of_ops.setdefault(birth.op, cause)
        return cause

    def _is_overflow(self, birth: Birth) -> bool:
        if birth.place not in (Place.NODE_OUTPUT, Place.GRAD) or birth.task == NONE:
            return False
        return self._text(self._names.get(birth.node, NONE)) in OVERFLOWS


def inherited(operands: Iterable[Finiteness | None]) -> int:
    """The cause of the first operand that is not finite; NONE if nobody knows."""
    bad = (each for each in operands if each is not None and (each.nan or each.inf))
    return next((each.cause for each in bad if each.cause != NONE), NONE)
