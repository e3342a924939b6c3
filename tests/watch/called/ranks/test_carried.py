"""Which nodes made what a collective reads, which calls read what it wrote, and handles."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gradscope.trace.schema import NONE, Collective, Handle, Node, Passed, Span, Used
from gradscope.trace.trace import Trace
from tests.record.running import House
from tests.watch.called.ranks.test_works import BEGIN, END

pytestmark = pytest.mark.torch

PROGRAM = """
weight = nn.Parameter(torch.ones(3, 4))
x = torch.ones(2, 3)

# 0: a tensor with a graph is gathered, and what came back goes through calls without nodes
own = x @ weight
parts = [torch.zeros_like(own) for _ in range(size)]
dist.all_gather(parts, own)
(own @ torch.cat(parts).view(-1, 4).T).sum().backward()

# 1: in place, with its graph
total = (x @ weight).sum()
dist.all_reduce(total)
(total / size).backward()

# 2: behind `.data`
sums = (x @ weight).sum(0)
dist.all_reduce(sums.data, op=dist.ReduceOp.SUM)

# 3: behind `detach()`
dist.all_reduce(sums.detach(), op=dist.ReduceOp.MAX)

# 4: a copy; what has its shape only does not read it, nor does what takes its memory later
copied = sums.detach().clone()
dist.all_reduce(copied)
shape = torch.zeros_like(copied)
(weight * shape).sum().backward()
del copied
for _ in range(8):
    again = torch.ones(4)
    (weight * again).sum().backward()
    del again

# 5: overwritten, but a part of it is kept
kept = torch.ones(4)
dist.all_reduce(kept)
held = torch.zeros(4)
held[:2].copy_(kept[:2])
kept.zero_()
(weight * held).sum().backward()
(weight * kept).sum().backward()

# 6: without gradients, nothing is looked at
with torch.no_grad():
    dist.all_reduce(own)

# 7 to 10: handles
first = dist.all_reduce(torch.ones(2), async_op=True)
first.wait()
first.is_completed()
dist.all_reduce(torch.ones(2), async_op=True).get_future().wait()
left = dist.all_reduce(torch.ones(2), async_op=True)
dist.barrier()

# 11, 12: the tensors of a dict
totals = {"one": torch.ones(1), "two": torch.ones(1)}
def reduced(tensor):
    dist.all_reduce(tensor)
for name, tensor in totals.items():
    reduced(tensor)
"""


class Recorded:
    """The rows of one rank, by collective in the order of calls."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        spans = {row.id: row for row in trace.rows(Span)}
        rows = sorted(trace.rows(Collective), key=lambda row: spans[row.span].begin)
        self.called = [row for row in rows if not row.caller]
        self.names = [spans[row.span].name.partition(",")[0] for row in self.called]
        self.nodes = {(row.thread, row.sequence_nr): row.name for row in trace.rows(Node)}
        self.thread = spans[self.called[0].span].thread

    def passed(self, at: int) -> list[Passed]:
        return [row for row in self.trace.rows(Passed) if row.span == self.called[at].span]

    def used(self, at: int) -> list[Used]:
        return [row for row in self.trace.rows(Used) if row.span == self.called[at].span]

    def did(self, at: int) -> list[str]:
        return [row.did for row in self.trace.rows(Handle) if row.span == self.called[at].span]

    def made(self, used: Used) -> str:
        """The first node that a call created."""
        return self.nodes.get((used.thread, used.first), "")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    house = House(tmp_path_factory.mktemp("carried"))
    house.write(BEGIN + PROGRAM + END)
    for process in house.run_as_ranks(2, sys.executable, "script.py"):
        assert process.code == 0, process.err
    return Recorded(house.recorded("trace.rank0.json"))


def test_what_was_gathered_is_followed_into_a_node(recorded: Recorded) -> None:
    assert recorded.names[0] == "all_gather"
    [passed] = recorded.passed(0)
    assert passed.through == ""
    assert recorded.nodes[recorded.thread, passed.sequence_nr] == "MmBackward0"
    cat, matmul = recorded.used(0)
    assert (cat.name, cat.direct, cat.first, cat.many) == ("cat", True, NONE, 0)
    assert (matmul.name, matmul.direct, matmul.graph) == ("matmul", False, False)
    assert recorded.made(matmul) == "MmBackward0"
    assert recorded.trace.source(matmul.stack).startswith("(own @ torch.cat")


def test_a_sum_in_place_is_followed_with_its_graph(recorded: Recorded) -> None:
    [passed] = recorded.passed(1)
    [used] = recorded.used(1)

    assert recorded.called[1].reduces == "sum"
    assert recorded.nodes[recorded.thread, passed.sequence_nr] == "SumBackward0"
    assert (used.name, used.direct, used.graph) == ("div", True, True)
    assert recorded.made(used) == "DivBackward0"


def test_memory_without_its_graph_is_recognized(recorded: Recorded) -> None:
    assert [each.through for each in recorded.passed(2)] == ["data"]
    assert [each.through for each in recorded.passed(3)] == ["detach"]
    assert recorded.passed(2)[0].sequence_nr == recorded.passed(3)[0].sequence_nr
    assert (recorded.called[2].reduces, recorded.called[3].reduces) == ("sum", "max")


def test_a_copy_has_no_graph_and_its_shape_and_memory_say_nothing(recorded: Recorded) -> None:
    assert recorded.passed(4) == []
    assert [each for each in recorded.used(4) if each.many] == []


def test_a_part_that_is_copied_is_followed_and_what_is_overwritten_is_not(
    recorded: Recorded,
) -> None:
    nodes = [each for each in recorded.used(5) if each.many]

    assert [each.name for each in nodes] == ["mul"]
    assert recorded.trace.source(nodes[0].stack) == "(weight * held).sum().backward()"


def test_nothing_is_looked_at_without_gradients(recorded: Recorded) -> None:
    assert recorded.passed(6) == []
    assert recorded.used(6) == []


def test_the_first_method_of_a_handle_is_recorded(recorded: Recorded) -> None:
    assert recorded.did(7) == ["returned", "wait"]
    assert recorded.did(8) == ["returned", "get_future"]
    assert recorded.did(9) == ["returned"]
    assert recorded.did(0) == []


def test_the_key_of_a_tensor_in_a_dict_is_recorded(recorded: Recorded) -> None:
    assert recorded.names[10] == "barrier"
    assert [each.held_as for each in recorded.called[11:]] == ["totals['one']", "totals['two']"]
    assert {each.held_as for each in recorded.called[:11]} == {""}


HANDLE = """
class Own(dist.Work):
    pass
own = Own()
try:
    own.get_future()
except RuntimeError as error:
    print(error)
work = dist.all_reduce(torch.ones(2), async_op=True)
print(type(work) is dist.Work, work.wait(), work.is_completed(), type(dist.Work.wait).__name__)
"""


def test_handles_behave_as_before(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.write(BEGIN + HANDLE + END)

    for process in house.run_as_ranks(2, sys.executable, "script.py"):
        assert process.code == 0, process.err
        assert process.out.splitlines() == [
            "Work::getFuture not implemented.", "True True True instancemethod",
        ]  # fmt: skip
