"""The innermost line of a stack that is not in an installed package."""

from __future__ import annotations

from hypothesis import given, strategies as st

from gradscope.analysis.identity.sites import Site, is_installed, own_site, site_of
from gradscope.trace.schema import NONE, Frame, Stack
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

FILES = "train.py", "model.py", "/usr/lib/python3.11/site-packages/torch/nn.py"
IDS = st.integers(NONE, 8)  # some are of no row, and stacks may lie around themselves


def expected(trace: Trace, stack: int) -> Site:
    """The same by going from stack to stack."""
    frames = trace.frames(stack)
    own = next((frame for frame in frames if not is_installed(frame.file)), None)
    if own is None:
        return site_of(trace, stack)
    return Site(f"{own.file}:{own.line}", own.text, own.file, own.line)


@given(
    frames=st.lists(st.sampled_from(FILES), max_size=6),
    stacks=st.lists(st.tuples(IDS, IDS), max_size=7),
)
def test_it_is_the_one_that_is_found_from_stack_to_stack(
    frames: list[str], stacks: list[tuple[int, int]]
) -> None:
    trace = trace_of(
        *(Frame(id, file, id + 1, "f", f"line {id}") for id, file in enumerate(frames)),
        *(Stack(id, frame, parent) for id, (frame, parent) in enumerate(stacks)),
    )

    for stack in range(NONE, len(stacks) + 1):
        found, wanted = own_site(trace, stack), expected(trace, stack)
        assert (found, found.file, found.line) == (wanted, wanted.file, wanted.line)
