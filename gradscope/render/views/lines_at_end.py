"""The lines with which `gradscope trace` ends, apart from what makes them: that imports much."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """The output of `gradscope trace` about the trace that it has just written."""

    summary: tuple[str, ...]  # what was recorded, and the findings
    following: str = ""  # the next command
    details: tuple[str, ...] = ()  # the cost, and what was not recorded
    explanation: tuple[str, ...] = ()  # of the exception that ended the program
