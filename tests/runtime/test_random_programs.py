"""Random programs do on our engine what they do on PyTorch's, in the same order."""

from __future__ import annotations

import os

import pytest
from hypothesis import assume, given, settings

import gradscope.runtime as ours
from tests.programs import Program, outcome, programs
from tests.runtime.engines import same, torch

pytestmark = pytest.mark.torch

EXAMPLES = int(os.environ.get("GRADSCOPE_PROGRAMS", "300"))


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_a_program_does_what_it_does_on_pytorch(program: Program) -> None:
    """Values, gradients, graphs, errors, what hooks hear, and the order in which nodes run."""
    found, wanted = outcome(ours, program), outcome(torch, program)

    assume("INTERNAL ASSERT" not in str(wanted["errors"]))  # PyTorch's own mistakes
    for key in wanted:
        assert same(found.get(key), wanted[key]), (key, found.get(key), wanted[key])
    assert found.keys() == wanted.keys()
