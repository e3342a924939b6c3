"""What `gradscope watch` shows: words about recordings that go on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from gradscope.analysis.timing.live import LiveRun
from gradscope.scene.readable import byte_count, count, duration, number, plural
from gradscope.scene.table_scenes import FactsScene
from gradscope.trace.file.reading.growing import GrowingTrace


class LiveState(StrEnum):
    """Whether the recording of a file goes on."""

    RUNNING = "running"
    ENDED = "ended"
    CUT = "stopped without closing the file"


@dataclass(slots=True)
class WatchedTrace:
    """One file, and what is known from it."""

    trace: GrowingTrace
    run: LiveRun = field(default_factory=LiveRun)
    state: LiveState = LiveState.RUNNING

    @property
    def name(self) -> str:
        return self.trace.path.name

    def is_over(self) -> bool:
        return self.state is LiveState.ENDED

    def look(self) -> None:
        """Read what was added since the last look."""
        windows = self.trace.look()
        for window in windows:
            if self.trace.again:
                self.run, self.trace.again = LiveRun(), False
            self.run.add(window)
        if self.trace.again:  # nothing has been written yet to the file that replaced it
            self.run = LiveRun()
        if self.trace.has_ended:
            self.state = LiveState.ENDED


def watched(path: Path) -> WatchedTrace:
    return WatchedTrace(GrowingTrace(path))


def live_facts(each: WatchedTrace) -> FactsScene:
    """What is known about a recording: names and values."""
    run, latest = each.run, each.run.latest
    shown = [(each.name, _state(each))]
    if latest is None:
        shown.append(("steps", "none ended yet"))
    else:
        many = f"{plural(run.ended, 'step')} recorded; the last is step {count(latest.number)}"
        shown += [
            ("steps", many),
            ("speed", _speed(run)),
            ("step", _times(run)),
            *_numbers(run),
        ]
    if run.saves and latest is not None:
        most = f"at most {byte_count(run.most_saved)}" if run.most_saved else "nothing"
        last = f"{byte_count(latest.saved_bytes)} in step {count(latest.number)}; "
        shown.append(("saved in a step", last * bool(latest.saved_bytes) + most))
    shown.append(("file", _size(each)))
    shown += [(f"finding: {kind}", message) for kind, message in run.findings]
    return FactsScene(tuple(shown))


def one_line(each: WatchedTrace) -> str:
    """The same in one line, for a file or a pipe."""
    run, latest = each.run, each.run.latest
    parts = ["no step ended yet"]
    if latest is not None:
        parts = [f"step {count(latest.number)}", _speed(run), _times(run)]
        parts += [f"{name} {value}" for name, value in _numbers(run)]
    parts.append(_size(each))
    if run.found:
        parts.append(plural(run.found, "finding"))
    parts += [str(each.state)] * (each.state is not LiveState.RUNNING)
    return f"{each.name}: {', '.join(parts)}"


def all_ended(every: Sequence[WatchedTrace]) -> bool:
    return all(each.state is not LiveState.RUNNING for each in every)


def _state(each: WatchedTrace) -> str:
    if each.state is not LiveState.RUNNING:
        return str(each.state)
    rank, world = each.run.facts.get("rank", 0), each.run.facts.get("world_size", 1)
    ago = max(time.time() - each.trace.written, 0.0)
    said = f"running; last written {ago:.0f} s ago"
    return f"{said}, rank {rank} of {world}" if world > 1 else said


def _speed(run: LiveRun) -> str:
    speed = run.steps_per_second
    return f"{number(round(speed, 2))} steps/s" if speed else "speed not known"


def _times(run: LiveRun) -> str:
    """The times of the recent steps, on average."""
    took = run.recent[-1].end - run.recent[0].begin
    parts = [("forward", "forward_ns"), ("backward", "backward_ns"), ("optimizer", "optimizer_ns")]
    said = ", ".join(f"{name} {duration(int(run.mean(attribute)))}" for name, attribute in parts)
    return f"{duration(took // len(run.recent))} ({said})"


def _numbers(run: LiveRun) -> list[tuple[str, str]]:
    """The loss and the norm of gradients, in the latest step in which they were recorded."""
    known = (("loss", run.numbers.loss), ("gradient norm", run.numbers.gradient_norm))
    return [(name, f"{number(of[1])} in step {count(of[0])}") for name, of in known if of]


def _size(each: WatchedTrace) -> str:
    limit = each.run.facts.get("max_bytes")
    size = byte_count(each.trace.size)
    if isinstance(limit, int) and limit > 0:
        size += f" of at most {byte_count(limit)}"
    dropped = each.run.facts.get("dropped", {})
    steps = dropped.get("steps", 0) if isinstance(dropped, dict) else 0
    return f"{size}, {plural(steps, 'step')} not recorded" if steps else size
