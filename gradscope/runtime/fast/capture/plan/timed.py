"""The text of a plan that reads a clock after each call, for a watcher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from time import perf_counter_ns
from types import FunctionType
from typing import Any

from gradscope.runtime.core.generated.texts import code_of


@dataclass(frozen=True, slots=True)
class TimedPiece:
    """Calls of a plan that run as one."""

    first: int
    count: int


class Timed:
    """A plan's function that records when it begins and when each piece ends."""

    def __init__(
        self,
        text: str,
        call_of_line: Mapping[int, int],
        scope: dict[str, Any],
        fused: Mapping[int, int],
    ) -> None:
        self.times: list[int] = []
        self.alone = Lock()  # held while it runs: a second thread waits
        self.call_of_line: dict[int, int] = {}
        first, *body, last = text.splitlines()
        lines = [first]
        for nr, line in enumerate(body, 2):
            if nr in call_of_line:
                lines.append("    told(clock())")
                self.call_of_line[len(lines) + 1] = call_of_line[nr]
            lines.append(line)
        lines += ["    told(clock())", last]
        self.pieces = [
            TimedPiece(place, fused.get(place, 1)) for place in self.call_of_line.values()
        ]
        code = code_of("replay", "\n".join(lines) + "\n", "a captured step, with its times")
        scope = {**scope, "told": self.times.append, "clock": perf_counter_ns}
        self.run = FunctionType(code, scope, "replay")
