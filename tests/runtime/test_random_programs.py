"""Random programs do on our engine what they do on PyTorch's, in the same order."""

from __future__ import annotations

import pytest
from hypothesis import assume, given

import gradscope.runtime as ours
from tests.programs import Program, outcome, programs
from tests.runtime.engines import same, torch
from tests.shared.searching import searching

pytestmark = pytest.mark.torch


@pytest.mark.filterwarnings("ignore")
@searching(200)
@given(programs())
def test_a_program_does_what_it_does_on_pytorch(program: Program) -> None:
    """Values, gradients, graphs, errors, what hooks hear, and the order in which nodes run."""
    found, wanted = outcome(ours, program), outcome(torch, program)

    assume("INTERNAL ASSERT" not in str(wanted["errors"]))  # PyTorch's own mistakes
    for key in wanted:
        assert same(found.get(key), wanted[key]), (key, found.get(key), wanted[key])
    assert found.keys() == wanted.keys()
