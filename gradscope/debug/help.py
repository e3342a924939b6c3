"""Help texts about commands and breakpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gradscope.analysis.state.breakpoints.conditions import FIELDS
from gradscope.analysis.state.breakpoints.kinds import KINDS
from gradscope.analysis.state.breakpoints.language import UNITS
from gradscope.scene.answers.answer import Answer, Topic
from gradscope.trace.schema.declare import EVENTS

if TYPE_CHECKING:
    from gradscope.debug.commands import Command


def to_type(commands: Iterable[Command]) -> Answer:
    """The commands, a line each."""
    lines = tuple(
        f"{' or '.join((each.name, *each.short))}{f' {each.takes}' if each.takes else ''}: "
        f"{each.says}"
        for each in commands
    )
    moves = "an empty line repeats the last move; all COMMAND shows a whole answer; quit ends"
    return Answer(moves, sections=(Topic("commands", lines),))


def to_stop_at() -> Answer:
    kinds = tuple(f"{f'{k.name} {k.what}'.strip()}: {k.says}" for k in KINDS.values())
    events = (f"and each kind of event, for all nodes or one: {', '.join(EVENTS)}",)
    fields = tuple(f"{name}: {says}" for name, says in FIELDS.items())
    return Answer(
        "break KIND [WHAT] [if FIELD < VALUE and …] [nth N]; * and ? are wildcards",
        sections=(
            Topic("kinds", kinds + events),
            Topic("fields", fields),
            Topic("units", (", ".join(UNITS),)),
        ),
    )
