"""Leaves that no module names have the names that the program has for them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from gradscope.trace.schema import Tensor
from gradscope.trace.trace import Trace
from tests.record.from_pytorch.watching import watched

pytestmark = pytest.mark.torch


def names(trace: Trace) -> list[str]:
    return [row.name for row in trace.rows(Tensor) if row.leaf and row.requires_grad]


def test_names_are_those_where_backward_was_called_and_outwards() -> None:
    import torch

    def trained(head: Any) -> None:
        inner = torch.ones(2, requires_grad=True)
        (outer * head * inner * listed[0]).sum().backward()

    outer = torch.ones(2, requires_grad=True)
    listed = [torch.ones(2, requires_grad=True)]
    _, trace = watched(lambda: trained(torch.ones(2, requires_grad=True)))

    assert sorted(names(trace)) == ["", "head", "inner", "outer"]


def test_modules_name_their_own_parameters() -> None:
    import torch

    def program() -> None:
        model = torch.nn.Linear(2, 1)
        weight_of_model = model.weight
        model(torch.ones(1, 2)).sum().backward()
        assert weight_of_model.grad is not None

    _, trace = watched(program)

    assert sorted(names(trace)) == ["bias", "weight"]


def test_what_the_program_lets_go_is_gone() -> None:
    import torch

    def program() -> bool:
        big = torch.ones(2, requires_grad=True)
        gone = weakref.ref(big)
        (big * 2).sum().backward()
        del big
        gc.collect()
        return gone() is None

    gone, _ = watched(program)

    assert gone
