"""Random programs do on our engine what they do on PyTorch's, in the same order."""

from __future__ import annotations

import math
import os
from typing import Any

import pytest
from hypothesis import assume, given, settings

import gradscope.runtime as ours
from tests.programs import Program, outcome, programs

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

EXAMPLES = int(os.environ.get("GRADSCOPE_PROGRAMS", "300"))


def same(found: Any, wanted: Any) -> bool:
    """Equal, where numbers may differ in their last digits."""
    if isinstance(wanted, float):
        return isinstance(found, float) and (
            found == wanted
            or (math.isnan(found) and math.isnan(wanted))
            or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
        )
    if isinstance(wanted, list | tuple):
        return (
            type(found) is type(wanted)
            and len(found) == len(wanted)
            and all(same(a, b) for a, b in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in wanted)
    return bool(found == wanted)


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
