"""Writes docs/engine/operations.md: how many of PyTorch's samples give the same here.

python tools/docs/ops.py            # all tiers; needs PyTorch, and some minutes
python tools/docs/ops.py add sum    # these rows anew, the others as they are
"""

from __future__ import annotations

import re
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

HOUSE = Path(__file__).resolve().parents[2]
PAGE = HOUSE / "docs" / "engine" / "operations.md"
sys.path.insert(0, str(HOUSE))

HEAD = """# Operations

PyTorch has a database of its operators with samples to test them
(`torch.testing._internal.common_methods_invocations.op_db`). Every sample of the operations listed
here runs on PyTorch and on gradscope's runtime, in all dtypes that PyTorch supports for the
operation. A sample passes if the results are the same (values, dtype, shape) and, if there are
gradients, also the graph (names of nodes and edges), the gradient, and the gradient of the
gradient.

The tiers say how often ordinary programs use an operation; tier 1 is used most. *Generated* by
`python tools/docs/ops.py`. The tests run a few samples of the first two tiers again, and
`make search` runs all of them. To check one operation, also in place, with `out=` and with calls
that are errors: `python -m tests.runtime.core.ops.op_db.opinfo add`.
"""
WHY = {
    "matrix_exp": "of halves, PyTorch reads its table of doubles as if they were halves (of zeros, "
    "in a batch, it makes -21072); one float32, where PyTorch's has two digits right, ours six",
}
"""Why some samples give something else."""

COLUMNS = ("operation", "node", "passed", "share", "what differs")


@dataclass(frozen=True)
class Line:
    """One operation's row."""

    name: str
    tier: int
    nodes: str
    passed: int
    total: int
    differs: str

    @property
    def share(self) -> str:
        return f"{100 * self.passed / self.total:.1f} %" if self.total else "–"

    def __str__(self) -> str:
        name = f"`{self.name}`"
        differs = self.differs
        if differs and self.name in WHY:
            differs = f"{differs}: {WHY[self.name]}"
        cells = [name, self.nodes, f"{self.passed} of {self.total}", self.share, differs]
        return f"| {' | '.join(cells)} |"


def line(name: str) -> Line:
    """Run the samples of an operation."""
    import torch

    from tests.runtime.core.ops.op_db import tallies

    torch.set_num_threads(1)
    found = tallies.tally(name, variants=False)
    nodes = ", ".join(f"`{node}`" for node in sorted(found.nodes)) or "–"
    differs = "there is none" if found.absent and not found.passed else ", ".join(
        f"{stage} {count}" for stage, count in sorted(found.stages.items())
    )  # fmt: skip
    return Line(name, found.tier, nodes, found.passed, found.total, differs)


def known_lines(text: str) -> dict[str, Line]:
    """The rows of a page that is there."""
    found: dict[str, Line] = {}
    tier = 0
    for row in text.splitlines():
        if row.startswith("## Tier "):
            tier = int(row.removeprefix("## Tier "))
        match = re.fullmatch(r"\| `([^`]+)` \| (.*) \| (\d+) of (\d+) \| [^|]* \| (.*) \|", row)
        if match:
            name, nodes, passed, total, differs = match.groups()
            found[name] = Line(
                name, tier, nodes, int(passed), int(total), differs.partition(":")[0].strip()
            )
    return found


def page(lines: list[Line]) -> str:
    parts = [HEAD]
    for tier in sorted({each.tier for each in lines}):
        rows = [each for each in lines if each.tier == tier]
        passed, total = sum(r.passed for r in rows), sum(r.total for r in rows)
        whole = sum(r.passed == r.total for r in rows)
        parts.append(
            f"## Tier {tier}\n\n{len(rows)} operations, {whole} of them whole; "
            f"{passed} of {total} samples pass ({100 * passed / total:.2f} %).\n\n"
            f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}\n"
            + "\n".join(map(str, rows))
            + "\n"
        )
    return "\n".join(parts)


def main(wanted: list[str]) -> None:
    from tests.runtime.core.ops.op_db import database

    listed = [name for name in database.tiers() if name in database.entries()]
    known = known_lines(PAGE.read_text()) if PAGE.exists() else {}
    again = [name for name in listed if name in wanted or not wanted or name not in known]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for made in pool.map(line, again):
            known[made.name] = made
            print(made, flush=True)
    PAGE.write_text(page([known[name] for name in listed]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
