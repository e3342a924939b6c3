"""Operations that have no samples of ours: PyTorch's operator database holds them."""

from __future__ import annotations

import pytest

from tests.runtime.ops import database

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

DTYPES = ("float64", "float16", "int64")


@pytest.mark.parametrize("name", database.held())
def test_samples_of_pytorchs_database_give_the_same(name: str) -> None:
    from tests.runtime.ops import opinfo

    found = opinfo.tally(name, DTYPES, at_most=12)

    assert found.total
    assert found.differences == []
