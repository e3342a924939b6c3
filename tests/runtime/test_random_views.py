"""Random programs of views and writes do what they do on PyTorch: values, histories, errors."""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings

import gradscope.runtime as ours
from tests.runtime.engines import torch
from tests.view_programs import Program, alike, at_fault, outcome, programs

pytestmark = pytest.mark.torch

EXAMPLES = int(os.environ.get("GRADSCOPE_PROGRAMS", "300"))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_a_program_of_views_does_what_it_does_on_pytorch(program: Program) -> None:
    wanted = outcome(torch, program)
    if at_fault(wanted):
        return
    found = outcome(ours, program)

    for key, value in wanted.items():
        assert alike(found[key], value), (key, found[key], value)
