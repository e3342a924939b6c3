"""The rules that every trace obeys, and a check of a given trace."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from gradscope.trace.spec import (
    counts,
    execution,
    foretold,
    order_rules,
    queue,
    references,
    saved_and_buffers,
)
from gradscope.trace.spec.checked_trace import CheckedTrace
from gradscope.trace.spec.rule import RULES, Violation

if TYPE_CHECKING:
    from gradscope.trace.trace import Trace

__all__ = ["RULES", "Violation", "check", "counts", "execution", "foretold", "order_rules", "queue"]
__all__ += ["references", "saved_and_buffers"]

LIMIT = 10
"""Largest number of violations of one rule that are reported."""


def check(trace: Trace, limit: int = LIMIT) -> list[Violation]:
    """The first few violations of each rule in a trace. See Note [What can be judged]."""
    facts = CheckedTrace(trace)
    return [
        Violation(name, fault.message, fault.table, fault.id, fault.seq)
        for name, judge in RULES.items()
        for fault in islice(judge(facts), limit)
    ]
