"""Where ranks may have parted, from the lines at which two of them were."""

from __future__ import annotations

import pytest

from gradscope.analysis.ranks.training.parting import left_at, parted_at
from gradscope.trace.schema import NONE, Frame, Source, Stack
from gradscope.trace.trace import Trace
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


def program_at(here: list[int], there: list[int], text: str = PROGRAM) -> Trace:
    """The stacks of two ranks, the innermost line first: that of the first one, then the other."""
    lines = [*here[::-1], *there[::-1]]
    functions = {line: "metric" if line < 5 else "save" for line in range(1, 9)}
    if text != PROGRAM:
        functions = dict.fromkeys(range(1, 8), "train")
    frames = [
        Frame(at, "train.py", line, functions.get(line, "<module>"))
        for at, line in enumerate(lines)
    ]
    links = [Stack(at, at, NONE if at in (0, len(here)) else at - 1) for at in range(len(lines))]
    return trace_of(Source(0, "train.py", text), *frames, *links)


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
    trace = program_at(here, there)
    found = parted_at(trace, len(here) - 1, len(here) + len(there) - 1 if there else NONE)

    assert (found and found.place) == (f"train.py:{parted}" if parted else None)


BREAKS = """\
def train(step):
    for x in batches:
        if first(x):
            break
        backward(x)
        if x > 1:
            if late(x):
                break
        for p in parameters:
            reduce(p)
"""
CAUGHT = """\
def train(step):
    for x in batches:
        if bad(x):
            raise ValueError
        for p in parameters:
            reduce(p)
try:
    train()
except ValueError:
    pass
"""
ALONE = CAUGHT.partition("try")[0] + "\n\n\ntrain()\n"
SKIPS = ALONE.replace("raise ValueError", "continue")


@pytest.mark.parametrize(
    ("text", "here", "there", "left"),
    [
        pytest.param(BREAKS, [10], [3], 3, id="the break after its last line"),
        pytest.param(BREAKS, [10], [5], 7, id="a later one, inside of another branch"),
        pytest.param(BREAKS, [10], [10], 3, id="the first one of the next round"),
        pytest.param(CAUGHT, [6, 8], [3, 8], 3, id="an exception that the caller catches"),
        pytest.param(CAUGHT, [6], [3], 3, id="likewise, if the stack has one line"),
        pytest.param(ALONE, [6, 10], [3, 10], 2, id="the loop, if nothing catches the exception"),
        pytest.param(SKIPS, [6, 10], [3, 10], None, id="what is left out in a round"),
        pytest.param(ALONE, [10], [10], None, id="no loop"),
    ],
)
def test_a_rank_that_has_ended_left_the_outermost_loop(
    text: str, here: list[int], there: list[int], left: int | None
) -> None:
    found = left_at(program_at(here, there, text), len(here) - 1, len(here) + len(there) - 1)

    assert (found and found.place) == (f"train.py:{left}" if left else None)
