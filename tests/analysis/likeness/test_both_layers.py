"""A program is recorded alike with machine code and with PyTorch's public API only."""

from __future__ import annotations

import difflib

import pytest

from tests.analysis.likeness.engines import lines, on_pytorch
from tests.programs.ordinary import ROOMS, programs_of

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("room", ROOMS)
def test_a_program_is_recorded_alike_with_and_without_machine_code(room: str) -> None:
    differ = {}
    for program in programs_of(room):
        native, public = on_pytorch(program), on_pytorch(program, native=False)
        assert "no_machine_code" in public.meta
        one, other = lines(native, public), lines(public, native)
        if one != other:
            found = difflib.unified_diff(one[:5000], other[:5000], lineterm="", n=2)
            differ[program.__name__] = list(found)[2:30]
        assert public.notes == native.notes

    assert differ == {}
