"""What `inspect` says when it is asked for one thing: a sentence, facts, lines under titles."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Topic:
    """Lines under a title, what matters most first."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """All that is said of one thing."""

    title: str  # the answer, in a sentence
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Topic, ...] = ()
    notes: tuple[str, ...] = ()  # what was inferred; what was not recorded, and how it would be
    data: object = field(default=None, compare=False)  # the same, as dataclasses


def filled(*sections: Topic) -> tuple[Topic, ...]:
    """Those that have lines."""
    return tuple(each for each in sections if each.lines)
