"""Operations in place: values, graphs, gradients and refusals, as PyTorch has them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.answers import held_samples
from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.answers.test_operations import by_family, done, engine_of, first_line
from tests.runtime.core.ops.op_db.families import CALLS
from tests.runtime.core.ops.twins import twins
from tests.runtime.oracle import Sample

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own deprecations


@as_pytorch_answered(
    {
        **by_family("in_place", twins(CALLS)),
        "in_place/held": dict(twins(list(held_samples.cases()))),
    }
)
def test_an_operation_in_place_does_what_pytorchs_does(torch: Any, sample: Sample) -> Any:
    try:
        return done(engine_of(torch), sample)
    except Exception as refused:
        return first_line(refused)
