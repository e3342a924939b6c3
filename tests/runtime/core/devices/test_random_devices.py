"""Random programs on simulated devices do what they do on PyTorch's CPU."""

from __future__ import annotations

import pytest
from hypothesis import given

import gradscope.runtime as ours
from gradscope.record.recorder import record
from gradscope.trace.spec import check
from tests.programs import Program, outcome, programs
from tests.runtime.engines import same, torch
from tests.shared.searching import searching

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@searching(100)
@given(programs())
def test_a_program_on_a_device_does_what_it_does_on_pytorch(program: Program) -> None:
    """All nodes run on the device's thread, in the order in which they run on PyTorch's."""
    with ours.device("sim:0"):
        found = outcome(ours, program)
    wanted = outcome(torch, program)

    for key in wanted:
        assert same(found[key], wanted[key]), (key, found[key], wanted[key])


@searching(100)
@given(programs())
def test_the_trace_of_a_program_on_a_device_keeps_every_rule(program: Program) -> None:
    with record() as recording, ours.device("sim:1"):
        outcome(ours, program)

    assert check(recording.trace()) == []
