"""How much of PyTorch's own operator database gives the same on gradscope's runtime.

    python -m tests.runtime.core.ops.op_db.opinfo add sum nn.functional.gelu  # these, and what
    python -m tests.runtime.core.ops.op_db.opinfo --tier 1  # a tier, a line each
    python -m tests.runtime.core.ops.op_db.opinfo --tier 2 --failing  # only those that differ
    python -m tests.runtime.core.ops.op_db.opinfo add --dtypes float32,int64 --show 20

A sample passes when the result is the same (values, dtype, shape), and with a gradient also the
graph behind it (names, edges), the gradient and the gradient of the gradient.
"""

from __future__ import annotations

import argparse
import sys

from tests.runtime.core.ops.op_db import database
from tests.runtime.core.ops.op_db.tallies import ALL, tally


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tier", type=int)
    parser.add_argument("--dtypes", default=",".join(ALL))
    parser.add_argument("--show", type=int, default=6)
    parser.add_argument("--failing", action="store_true")
    parser.add_argument("--plain", action="store_true", help="no in-place, out= and errors")
    options = parser.parse_args(given)
    names = options.names or [n for n, t in database.tiers().items() if t == options.tier]
    unknown = [name for name in names if name not in database.entries()]
    passed = total = 0
    for name in (n for n in names if n not in unknown):
        found = tally(name, tuple(options.dtypes.split(",")), variants=not options.plain)
        passed, total = passed + found.passed, total + found.total
        if found.passed == found.total and options.failing:
            continue
        print(f"{name:40} {found.passed:5} of {found.total:5}  {found.stages or ''}", flush=True)
        for line in found.differences[: options.show]:
            print(f"    {line}", flush=True)
    print(f"{passed} of {total} samples")
    if unknown:
        print("not in the database:", " ".join(unknown))
    return int(passed != total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
