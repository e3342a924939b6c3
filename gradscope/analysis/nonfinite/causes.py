"""Births that have one cause: one Inf can produce many NaN, and these are no bugs of their own."""

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
"""Nodes whose gradient is Inf only because of overflow: in one backward, with one cause."""


class Causes:
    """Finds the birth with which each birth began; births are passed in the order of time."""

    def __init__(self, trace: Trace) -> None:
        nodes = trace.table(Node)
        self._op_of = dict(zip(nodes["id"].tolist(), nodes["op"].tolist(), strict=True))
        self._names = dict(zip(nodes["id"].tolist(), nodes["name"].tolist(), strict=True))
        self._text = trace.text
        self._of_ops: dict[int, int] = {}  # by call whose result was not finite
        self._overflows: dict[int, int] = {}  # by backward in which gradients overflowed
        self._harm_of: dict[int, int] = {}  # the first NaN from an Inf that may be intended

    def of_birth(
        self, birth: Birth, operands: Iterable[Finiteness | None], *, may_be_given: bool
    ) -> int:
        """The value at which it began; its own if nothing before was non-finite.

        An Inf that may be intended, such as a mask of −Inf, does not count as the cause of what is
        produced from it: the first of these is the cause of the others.
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
    """The cause of the first operand that is not finite; NONE if it is unknown."""
    bad = (each for each in operands if each is not None and (each.nan or each.inf))
    return next((each.cause for each in bad if each.cause != NONE), NONE)
