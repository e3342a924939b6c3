"""The answer of `inspect` about one thing: a sentence, facts, and lines under titles."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Topic:
    """Lines under a title, the most important first."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer about one thing."""

    title: str  # the answer, in a sentence
    facts: tuple[tuple[str, str], ...] = ()
    sections: tuple[Topic, ...] = ()
    notes: tuple[str, ...] = ()  # what was inferred, or not recorded and how to record it
    data: object = field(default=None, compare=False)  # the same, as dataclasses


def filled(*sections: Topic) -> tuple[Topic, ...]:
    """The sections that have lines."""
    return tuple(each for each in sections if each.lines)
