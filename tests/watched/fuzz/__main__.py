"""Try many programs, and keep those that a recording changes.

python -m tests.watched.fuzz 2000               # from another seed each time, which is printed
python -m tests.watched.fuzz 100 --first 17     # from this seed on
python -m tests.watched.fuzz 20 --fresh         # each run in a process of its own
python -m tests.watched.fuzz 1 --first 17 --show
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from tests.watched.fuzz.harness import LEVELS, Difference, Harness, Server
from tests.watched.fuzz.programs import Program, drawn
from tests.watched.fuzz.shrinking import shrunk


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.watched.fuzz", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("count", type=int, nargs="?", default=100, help="how many programs")
    parser.add_argument("--first", type=int, help="the first seed")
    parser.add_argument("--levels", default=",".join(LEVELS), help="turns: one for each program")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-failures"), help="where they go")
    parser.add_argument("--fresh", action="store_true", help="no forks: real starts")
    parser.add_argument("--whole", action="store_true", help="do not shorten what fails")
    parser.add_argument("--show", action="store_true", help="print the programs, do not run them")
    return parser.parse_args()


def main() -> int:
    """0 if every program was as it is alone."""
    asked = arguments()
    first = random.SystemRandom().randrange(10**6) if asked.first is None else asked.first
    seeds = range(first, first + asked.count)
    if asked.show:
        sys.stdout.writelines(drawn(seed).text() for seed in seeds)
        return 0
    print(f"seeds {first} to {seeds[-1]}", flush=True)
    began, counts = time.monotonic(), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        server = None if asked.fresh else Server(Path(folder))
        idle: SimpleQueue[Harness] = SimpleQueue()
        for nr in range(asked.jobs):
            idle.put(Harness(Path(folder) / str(nr), server))
        with ThreadPoolExecutor(asked.jobs) as pool:
            trying = partial(tried, idle, asked)
            for seed, found in zip(seeds, pool.map(trying, seeds), strict=True):
                counts[of_kind(found)] += 1
                if found:
                    where = "; ".join(sorted({f"{d.level} {d.what}" for d in found}))
                    print(f"seed {seed}: {where}", flush=True)
        for _ in range(asked.jobs):
            idle.get().close()
        if server is not None:
            server.stop()
    print(f"{asked.count} programs, levels {asked.levels}: {counts['changed']} changed, "
          f"{counts['unsteady']} unsteady; {time.monotonic() - began:.0f} s")  # fmt: skip
    return int(counts["changed"] > 0)


def tried(idle: SimpleQueue[Harness], asked: argparse.Namespace, seed: int) -> Sequence[Difference]:
    """What is wrong with the program of a seed; its text is kept if something is."""
    harness = idle.get()
    try:
        levels = (LEVELS[seed % 4],) if asked.levels == "turns" else asked.levels.split(",")
        program = drawn(seed)
        found = harness.differences(program, levels)
        if of_kind(found) == "changed" and not asked.whole:
            program, found = smallest(harness, program, found)
    finally:
        idle.put(harness)
    if found:
        keep(asked.keep, program, found)
    return found


def of_kind(found: Sequence[Difference]) -> str:
    if not found:
        return "alike"
    return "unsteady" if found[0].what == "unsteady" else "changed"


def smallest(
    harness: Harness, program: Program, found: list[Difference]
) -> tuple[Program, list[Difference]]:
    """A part of it that goes wrong at the same level in the same way, and what is wrong there."""
    level, what = found[0].level, found[0].what

    def fails(shorter: Program) -> bool:
        return any(each.what == what for each in harness.differences(shorter, [level]))

    part = shrunk(program, fails)
    return part, harness.differences(part, [level]) or found


def keep(folder: Path, program: Program, found: list[Difference]) -> None:
    """Write the text of a program down, and what is wrong with it."""
    folder.mkdir(parents=True, exist_ok=True)
    told = "\n".join(f"{d.level} {d.what}\n{d.words}\n" for d in found)
    name = f"{of_kind(found)}-{program.seed}"
    (folder / f"{name}.py").write_text(program.text(), encoding="utf-8")
    (folder / f"{name}.txt").write_text(told, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
