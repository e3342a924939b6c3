"""Time two things in turn, and say how their medians compare with what must be reached."""

from __future__ import annotations

import gc
import os
import platform
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any, Final

SPINNING: Final = 0.02
"""Seconds after which no library's threads look for more work."""
LOOP: Final = 0.01
"""Seconds for which each is run before it is measured, at least once."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The times of ours and of its peer, measured in turn in one run."""

    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """How many times its peer's time ours takes."""
        return median(self.ours) / median(self.peer)


def in_turn(
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    rounds: int = 15,
    warmups: int = 2,
    threads: int | None = None,
) -> Comparison:
    """Run both in every round, so that what disturbs the machine disturbs both.

    Steps of training, which say in how many threads they run, are run for a moment before one is
    measured, as a program's loop runs them: the caches hold the engine's own arrays then. The other
    engine's threads keep their cores for some milliseconds behind its work: it is waited for that.

    What is there before is frozen: a collection between two rounds would walk all of it, and a step
    of a millisecond would be measured with cold caches, as no loop of a program's has them.
    """
    for _ in range(warmups):
        ours()
        peer()
    gc.collect()
    gc.freeze()
    try:
        timed = seconds if threads is None else partial(_in_loop, threads=threads)
        pairs = [(timed(ours), timed(peer)) for _ in range(rounds)]
    finally:
        gc.unfreeze()
    return Comparison(tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs))


@dataclass
class Chosen:
    """What of a bench is run: `python -m bench replaying --threads 2 --only MLP`."""

    threads: tuple[int, ...] = (1, 2)
    only: str = ""

    def wants(self, name: str) -> bool:
        return self.only.lower() in name.lower()


chosen = Chosen()


def each_number_of_threads(*engines: Any) -> Iterator[int]:
    """One thread and then two, for all engines; what is printed meanwhile stands below."""
    for count in chosen.threads:
        for engine in engines:
            engine.set_num_threads(count)
        print(f" {count} thread{'s' if count > 1 else ''}:")
        yield count


def processor() -> str:
    """The processor's name, and how many of its cores there are."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.exists() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{named[0] if named else platform.processor()}, {os.cpu_count()} cores"


def _in_loop(run: Callable[[], object], threads: int) -> float:
    """How long one run takes behind others of its own."""
    if threads > 1:
        sleep(SPINNING)
    end = perf_counter() + LOOP
    run()
    while perf_counter() < end:
        run()
    return seconds(run)


def seconds(run: Callable[[], object]) -> float:
    """How long one run takes, begun with nothing left to collect."""
    gc.collect()
    begin = perf_counter()
    run()
    return perf_counter() - begin


def report_ratio(what: str, against: str, comparison: Comparison, limit: float) -> None:
    """Print one line: the ratio, both medians, and whether the target is met."""
    ours, peer = median(comparison.ours) * 1e3, median(comparison.peer) * 1e3
    report(
        f"{what}: {ours:.2f} ms; {against}: {peer:.2f} ms",
        comparison.ratio,
        limit,
        unit="×",
    )


def report(what: str, value: float, limit: float, unit: str) -> None:
    """Print one line: a value, its target, and whether it is met."""
    verdict = "ok" if value <= limit else "MISSED"
    print(f"  {what}: {value:.2f} {unit} (must be ≤ {limit:g}): {verdict}", flush=True)
