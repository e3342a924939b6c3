"""What a program is: leaves, instructions, and backwards; and how one is drawn.

Values are named by how far back they were made (0 is the latest, counted around), so that any
instruction can be left out and the rest is still a program: failing ones get short.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.programs.functions import FUNCTIONS
from tests.programs.hooks import HOOKS
from tests.programs.words import OPERATIONS, VIEWS, WRITES

SHAPES = ("matrix", "row", "vector", "number")

WAYS = ("here", "here", "here", "thread")
"""Where a backward is called: on the thread that made the graph, or on a fresh one.

A further way (a simulated device, several threads at once) is one more word here and one more
branch in `running.call`.
"""

Instruction = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """One backward, or one `grad` where `wanted` is given and `keeps` is not."""

    roots: tuple[tuple[int, str], ...]  # a value, and its seed: "sum", "given", "missing"
    wanted: tuple[int, ...] | None = None
    fills: bool = False  # with `wanted`: backward(inputs=), else grad
    retain_graph: bool = False
    create_graph: bool = False
    unused: str = "allowed"  # or "refused", "zeros"
    way: str = "here"


@dataclass(frozen=True, slots=True)
class Program:
    """Leaves, instructions over the values so far, and how backward is called."""

    leaves: tuple[tuple[str, bool], ...]  # shape, requires_grad
    instructions: tuple[Instruction, ...]
    runs: tuple[Run, ...]
    watched: bool = False  # whether every node says when it runs

    def __repr__(self) -> str:
        fields = ("leaves", "instructions", "runs")
        lines = [f"    {name}=({''.join(f'{x!r}, ' for x in getattr(self, name))}),"
                 for name in fields]  # fmt: skip
        return "\n".join(["Program(", *lines, f"    watched={self.watched},", ")"])


far = st.integers(0, 2) | st.integers(0, 9)
"""How far back a value is, among those that suit; 9: whatever value."""


def names(known: Iterable[str]) -> st.SearchStrategy[str]:
    """One of these, the earlier ones being simpler."""
    return st.sampled_from(tuple(known))


def _instructions(*, writes: bool) -> st.SearchStrategy[Instruction]:
    plain = [
        *[st.tuples(st.just("call"), names(OPERATIONS), far, far)] * 3,
        st.tuples(st.just("view"), names(VIEWS), far),
        st.tuples(st.just("function"), names(FUNCTIONS), far, far),
        st.tuples(st.just("hook"), names(HOOKS), far),
        st.tuples(st.just("remove"), far),
        st.tuples(st.just("change"), names(CHANGES), far),
    ]
    if writes:
        plain.append(st.tuples(st.just("write"), names(WRITES), far, far))
    one = st.one_of(plain)
    return st.one_of(one, one, one, st.tuples(names(MODES), one))


CHANGES = ("detach", "detach_", "require", "no longer require", "forget", "data")
MODES = ("quietly", "packing")


def _runs() -> st.SearchStrategy[Run]:
    seeds = names(("sum", "sum", "sum", "given", "given with history", "missing"))
    return st.builds(
        Run,
        roots=st.lists(st.tuples(far, seeds), min_size=1, max_size=2).map(tuple),
        wanted=st.none() | st.lists(far, min_size=1, max_size=2).map(tuple),
        fills=st.booleans(),
        retain_graph=st.booleans(),
        create_graph=st.sampled_from((False, False, True)),
        unused=names(("allowed", "allowed", "refused", "zeros")),
        way=names(WAYS),
    )


def programs(*, writes: bool = True, longest: int = 12) -> st.SearchStrategy[Program]:
    """Programs of up to `longest` instructions; some raise, which is compared as well."""
    one = _instructions(writes=writes)
    leaf = st.tuples(names(SHAPES), st.sampled_from((True, True, False)))
    return st.builds(
        Program,
        leaves=st.lists(leaf, min_size=1, max_size=3).map(tuple),
        instructions=(
            st.lists(one, max_size=4) | st.lists(one, min_size=longest // 2, max_size=longest)
        ).map(tuple),
        runs=st.lists(_runs(), min_size=1, max_size=2).map(tuple),
        watched=st.booleans(),
    )
