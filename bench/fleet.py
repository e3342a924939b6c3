"""Questions to a fleet: time, bytes read and memory, beside a scan of the same tables.

`python -m bench fleet` writes two fleets with planted faults into a temporary folder (17 million
rows of 256 ranks, and 106 million rows of 1,024 ranks and 1,000 steps; 1.5 GB), asks each question
in a process of its own, and removes them. `--only 256` measures the first fleet only.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Pool
from pathlib import Path

from bench.measure import chosen, report
from tests.fleet.planted import Planted, write_rank

SMALL = Planted(
    ranks=256, steps=100, layers=75, nan=(17, 90, 3), slow=(200, 40.0), drift=(3, 60, 5),
    own_gradient=(9, 70, 2), odd=(77, 88), spike=80, unused=(30, 7),
)  # fmt: skip
LARGE = Planted(
    ranks=1_024, steps=1_000, layers=11, nan=(17, 900, 3), slow=(200, 10.0), drift=(3, 600, 5),
    own_gradient=(9, 700, 2), odd=(77, 880), spike=800, unused=(30, 7),
)  # fmt: skip
LIMITS = {256: {"first-nan": 0.1, "drift": 0.5}, 1_024: {}}
"""Seconds, of fleets of so many ranks; of others LONGEST."""
LONGEST = 30.0
TIMES = 3
SHORT = 5.0
"""Seconds up to which a question is asked TIMES times."""
MEMORY = 1 << 30
"""The most that DuckDB may take; the process has Python and pyarrow besides."""


def main() -> None:
    """Print what each question costs."""
    for planted in (SMALL, LARGE):
        if chosen.only in str(planted.ranks):
            with tempfile.TemporaryDirectory(prefix="gradscope-fleet-") as folder:
                _measure(Path(folder), planted)


def _measure(root: Path, planted: Planted) -> None:
    with Pool() as pool:
        rows = sum(pool.imap_unordered(partial(write_rank, root, planted), range(planted.ranks)))
    size = sum(each.stat().st_size for each in root.rglob("*.parquet"))
    print(f"  {planted.ranks} ranks, {planted.steps} steps: {rows:,} rows, {size / 1e6:,.0f} MB")
    limits = LIMITS[planted.ranks]
    from gradscope.fleet.asking.question import questions

    for name in questions():
        one, scan = _in_process(root, name), _in_process(root, f"scan {name}")
        words = (
            f"{one['cpu']:.3g} s of CPU, {one['read'] / 1e6:,.0f} MB read, "
            f"{one['peak'] / 1e6:,.0f} MB of memory; a scan of its tables "
            f"{scan['seconds']:.3g} s, {scan['read'] / 1e6:,.0f} MB"
        )
        print(f"  {name}: first {one['first']:.3g} s; {words}")
        report(f"{name}, {planted.ranks} ranks", one["seconds"], limits.get(name, LONGEST), "s")


def _in_process(root: Path, what: str) -> dict[str, float]:
    ran = subprocess.run(
        [sys.executable, "-m", "bench.fleet", str(root), *what.split()],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    found: dict[str, float] = json.loads(ran.stdout)
    return found


def _asked(root: Path, name: str) -> None:
    from gradscope.fleet.asking.answer import Asking
    from gradscope.fleet.asking.folder import Asked, fleet_at
    from gradscope.fleet.asking.question import question_called

    question = question_called(name)
    answer = Asking(fleet_at(root, Asked()), question, question.with_parameters({})).answer()
    assert answer.rows or name in {"regressions", "new-findings"}, name


def _scanned(root: Path, name: str) -> None:
    """Read all columns of the tables that a question reads."""
    from gradscope.fleet.asking.engine import PartWork, run_part
    from gradscope.fleet.asking.folder import Asked, fleet_at
    from gradscope.fleet.asking.question import question_called

    fleet = fleet_at(root, Asked())
    for table in question_called(name).reads:
        files = {table: [each.path for each in fleet.files(table)]}
        run_part(PartWork(str(fleet.root), files, f'SELECT max(COLUMNS(*)) FROM "{table}"'))


def _costs(work: Callable[[], None], times: int) -> dict[str, float]:
    before, began = _read(), time.process_time()
    seconds = [*_timed(work, 1)]
    read, cpu = _read() - before, time.process_time() - began
    seconds += _timed(work, times - 1 if seconds[0] < SHORT else 0)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"first": seconds[0], "seconds": min(seconds), "cpu": cpu, "read": read, "peak": peak}


def _timed(work: Callable[[], None], times: int) -> Iterator[float]:
    for _ in range(times):
        begin = time.perf_counter()
        work()
        yield time.perf_counter() - begin


def _read() -> int:
    """Bytes that this process has read, from the disk or its cache."""
    facts = Path("/proc/self/io").read_text(encoding="ascii").split()
    return int(facts[facts.index("rchar:") + 1])


if __name__ == "__main__":
    place, *asked = Path(sys.argv[1]), *sys.argv[2:]
    import duckdb  # noqa: F401  imports are not measured
    import pyarrow as _  # noqa: F401, ICN001

    found = (
        _costs(partial(_scanned, place, asked[1]), 1)
        if asked[0] == "scan"
        else _costs(partial(_asked, place, asked[0]), TIMES)
    )
    print(json.dumps(found))
