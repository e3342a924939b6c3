"""Handles of `isend` and `irecv` that are not waited for, in the text of programs."""

from __future__ import annotations

import ast

import pytest

from gradscope.analysis.ranks.training.exchanged.lone import lone, lone_transfers
from gradscope.trace.schema import NONE, Frame, Source
from tests.shared.by_hand import trace_of

SEND = "work = dist.isend(part, 1)\n"
RECEIVE = "work = dist.irecv(part, 0)\n"


@pytest.mark.parametrize(
    ("text", "used"),
    [
        pytest.param("dist.isend(part, 1)\n", [NONE], id="a handle that is dropped"),
        pytest.param(SEND + "step()\n", [NONE], id="a handle that nothing reads"),
        pytest.param(SEND + "work.wait()\npart.zero_()\n", [], id="waited for before a write"),
        pytest.param(SEND + "part.zero_()\nwork.wait()\n", [2], id="written before"),
        pytest.param(SEND + "part[0] = 1\nwork.wait()\n", [2], id="an element written before"),
        pytest.param(SEND + "part += 1\nwork.wait()\n", [2], id="added to before"),
        pytest.param(SEND + "y = part.sum()\nwork.wait()\n", [], id="only read while it is sent"),
        pytest.param(SEND + "part = 3\npart.f_()\nwork.wait()\n", [], id="another tensor by then"),
        pytest.param(SEND + "part.requires_grad_()\nwork.wait()\n", [], id="no write"),
        pytest.param(RECEIVE + "y = net(part)\nwork.wait()\n", [2], id="read before"),
        pytest.param(RECEIVE + "work.wait()\ny = net(part)\n", [], id="read after"),
        pytest.param(RECEIVE + "n = part.shape[0]\nwork.wait()\n", [], id="only its shape"),
        pytest.param(RECEIVE + "works.append(work)\ny = net(part)\n", [], id="kept elsewhere"),
        pytest.param(RECEIVE + "def f():\n    return part\nwork.wait()\n", [], id="in a function"),
        pytest.param(
            "if rank:\n    work = dist.irecv(part, 0)\nif rank:\n    work.wait()\n",
            [],
            id="waited for elsewhere",
        ),
        pytest.param(
            "def f():\n    for x in y:\n        work = torch.distributed.irecv(part, 0)\n"
            "        if x:\n            z = part + 1\n        work.wait()\n",
            [5],
            id="in a loop of a function",
        ),
        pytest.param("works.append(dist.isend(part, 1))\n", [], id="in a list"),
        pytest.param("comm.isend(part, 1)\n", [], id="of another library"),
    ],
)
def test_a_use_before_the_handle_is_found_in_the_source(text: str, used: list[int]) -> None:
    assert [each.used for each in lone(ast.parse(text))] == used


@pytest.mark.parametrize(("line", "many"), [(4, 1), (6, 0)])
def test_only_blocks_count_of_which_a_line_ran(line: int, many: int) -> None:
    text = "def send(part):\n    dist.isend(part, 1)\n    step()\n    step()\n\nother()\n"
    rows = [Source(number, "train.py", text) for number in range(2)]

    found = lone_transfers(trace_of(*rows, Frame(0, "train.py", line, "send")))

    assert len(found) == many
