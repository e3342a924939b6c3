"""Merged traces of several ranks that train together."""

from __future__ import annotations

from collections.abc import Mapping

from gradscope.analysis.ranks.merge import merged
from gradscope.trace.schema import NONE, Phase, Span, Step
from gradscope.trace.trace import Trace
from tests.shared.example_traces import two_layers_program

MS = 1_000_000


def several_ranks(
    ranks: int = 2,
    steps: int = 3,
    late: Mapping[tuple[int, int], int] | None = None,
    *,
    alike: bool = False,
    slow: Mapping[tuple[int, int], int] | None = None,
) -> Trace:
    """Each rank trains and calls `all_reduce` after each backward; all calls end together.

    Rank r has 2 + r layers, unless all are `alike`. `late`: by rank and step, how many ns later
    than the others a rank calls `all_reduce`. `slow`: how long a step took, in ns; if it is given,
    all other steps take 1 ms.
    """
    return merged(
        [_of_rank(rank, steps, 2 if alike else 2 + rank, late or {}, slow) for rank in range(ranks)]
    )


def _of_rank(
    rank: int,
    steps: int,
    layers: int,
    late: Mapping[tuple[int, int], int],
    slow: Mapping[tuple[int, int], int] | None,
) -> Trace:
    program = two_layers_program(steps, layers)
    program.tick()
    if slow is not None:
        program.rows[:] = [
            Step(row.id, row.number, row.begin, row.begin + slow.get((rank, row.number), MS))
            if isinstance(row, Step)
            else row
            for row in program.rows
        ]
    for step in [row for row in program.rows if isinstance(row, Step)]:
        at = 10_000_000 + 1_000_000 * step.number
        begin = at + late.get((rank, step.number), 0)
        program.rows.append(
            Span(program.id("span"), "all_reduce", Phase.COLLECTIVE, NONE, 0, step.id, begin,
                 at + 900_000)
        )  # fmt: skip
    return program.trace(rank=rank, world_size=2, host="one")
