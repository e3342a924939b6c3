"""Rules about traces, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from gradscope.trace.schema.declare import NONE

if TYPE_CHECKING:
    from gradscope.trace.spec.checked_trace import CheckedTrace


@dataclass(frozen=True, slots=True)
class RuleFault:
    """One place where a trace breaks a rule."""

    message: str
    table: str
    id: int = NONE  # of the row, where its table has ids
    seq: int = NONE  # of the event, where it is one


@dataclass(frozen=True, slots=True)
class Violation:
    """A fault, with the rule that it breaks."""

    rule: str
    message: str
    table: str
    id: int
    seq: int


Rule: TypeAlias = "Callable[[CheckedTrace], Iterator[RuleFault]]"

RULES: dict[str, Rule] = {}
"""Every rule by name. Its docstring states the rule."""


def rule(judge: Rule) -> Rule:
    """Declare a rule; its name is that of the function."""
    RULES[judge.__name__.replace("_", "-")] = judge
    return judge
