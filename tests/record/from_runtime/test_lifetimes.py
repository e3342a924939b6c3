"""A recording keeps nothing alive that its program lets go."""

from __future__ import annotations

import gc
import weakref

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.trace.schema import Tensor
from tests.runtime.both import leaf


def test_a_variable_that_is_deleted_dies_although_leaves_are_named_after_variables() -> None:
    gc.disable()
    try:
        with record() as recording:
            first = torch.ones(3)
            held = weakref.ref(first)
            second = leaf(torch, 1.0)
            (second * 2).sum().backward()
            third = torch.ones(3, requires_grad=True)
            (third * 2).sum().backward()
            del first, second
            assert held() is None
    finally:
        gc.enable()

    assert "third" in {row.name for row in recording.trace().rows(Tensor)}


def test_what_locals_returned_to_the_program_stays_as_it_was() -> None:
    word = "mine"
    with record():
        before = locals()
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()

    assert before["word"] is word
