"""Random programs of views and writes do what they do on PyTorch: values, histories, errors."""

from __future__ import annotations

import pytest
from hypothesis import given

import gradscope.runtime as ours
from tests.programs.view_programs import Program, alike, at_fault, outcome, programs
from tests.runtime.engines import torch
from tests.shared.searching import searching

pytestmark = pytest.mark.torch


@pytest.mark.filterwarnings("ignore")
@searching(200)
@given(programs())
def test_a_program_of_views_does_what_it_does_on_pytorch(program: Program) -> None:
    wanted = outcome(torch, program)
    if at_fault(wanted):
        return
    found = outcome(ours, program)

    for key, value in wanted.items():
        assert alike(found[key], value), (key, found[key], value)
