"""Operations that have no samples of ours: PyTorch's operator database holds them."""

from __future__ import annotations

import pytest

from tests.runtime.core.ops.op_db import database
from tests.runtime.core.ops.op_db.families import ask
from tests.shared.searching import SEARCHING

pytestmark = [
    pytest.mark.torch,
    pytest.mark.search,
    pytest.mark.filterwarnings("ignore"),
]

DTYPES = ("float64", "float16", "int64")
EACH = None if SEARCHING else 6
"""How many samples of an operation and dtype; a search takes all."""
HELD = database.held()


@pytest.mark.parametrize("part", range(4))
def test_samples_of_pytorchs_database_give_the_same(part: int) -> None:
    ask(gives_the_same, ((name, name) for name in HELD[part::4]))


def gives_the_same(name: str) -> None:
    from tests.runtime.core.ops.op_db import tallies

    found = tallies.tally(name, DTYPES, at_most=EACH)

    assert found.total
    assert found.differences == []
