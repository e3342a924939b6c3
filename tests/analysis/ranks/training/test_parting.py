"""Where ranks may have parted, from the lines at which two of them were."""

from __future__ import annotations

import pytest

from gradscope.analysis.ranks.training.parting import parted_at
from gradscope.trace.schema import NONE, Frame, Source, Stack
from tests.shared.by_hand import trace_of

PROGRAM = """\
def metric(x):
    if not len(x):
        return None
    reduce(x)
def save(step):
    if rank == 0:
        write(step)
        barrier()
for epoch in epochs:
    for batch in batches:
        try:
            load(batch)
        except OSError:
            continue
        backward()
    if late(epoch):
        break
    if epoch % 2 == 0:
        save(epoch)
        metric(epoch)
barrier()
for batch in batches:
    backward()
barrier()
"""


@pytest.mark.parametrize(
    ("here", "there", "parted"),
    [
        pytest.param([8, 19], [15], 6, id="a branch that names the rank, before another one"),
        pytest.param([4, 20], [4, 20], 2, id="a return before it"),
        pytest.param([21], [15], 16, id="a break from the loop that only one is in"),
        pytest.param([24], [23], 22, id="a loop that nothing leaves"),
        pytest.param([19], [21], 16, id="likewise, the other way round"),
        pytest.param([15], [15], 14, id="a continue before it"),
        pytest.param([12], [12], None, id="nothing that could part them"),
        pytest.param([21], [], None, id="the other one was nowhere"),
    ],
)
def test_it_is_what_one_rank_is_inside_of_or_has_left(
    here: list[int], there: list[int], parted: int | None
) -> None:
    lines = [*here[::-1], *there[::-1]]
    functions = {line: "metric" if line < 5 else "save" for line in range(1, 9)}
    frames = [
        Frame(at, "train.py", line, functions.get(line, "<module>"))
        for at, line in enumerate(lines)
    ]
    links = [Stack(at, at, NONE if at in (0, len(here)) else at - 1) for at in range(len(lines))]
    trace = trace_of(Source(0, "train.py", PROGRAM), *frames, *links)

    found = parted_at(trace, len(here) - 1, len(lines) - 1 if there else NONE)

    assert (found and found.place) == (f"train.py:{parted}" if parted else None)
