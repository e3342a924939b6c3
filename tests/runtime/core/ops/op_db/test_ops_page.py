"""PyTorch's own samples of every operation of the first two tiers give what its page says.

Of each operation a few samples are tried, in half of the dtypes; a search tries all of them.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.core.ops.op_db.database import tiers
from tests.runtime.core.ops.op_db.families import ask
from tests.shared.searching import SEARCHING

HOUSE = Path(__file__).parents[5]
NEEDED = {1: 1.0, 2: 0.97}
"""The share of a tier's samples that must pass."""
LISTED = [name for name, tier in tiers().items() if tier in NEEDED]
PARTS = 12
EACH = 5
"""How many samples of an operation and dtype are tried at most."""
ALWAYS = ("float64", "complex128", "float32", "int64")
IN_TURN = ("float16", "complex64", "int32", "bool", "bfloat16", "uint8", "int16", "int8")

pytestmark = [pytest.mark.torch, pytest.mark.search, pytest.mark.filterwarnings("ignore")]


@cache
def generator() -> Any:
    """tools/docs/ops.py."""
    spec = importlib.util.spec_from_file_location("ops_page", HOUSE / "tools" / "docs" / "ops.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@cache
def lines() -> dict[str, Any]:
    """The rows of the page by name."""
    found: dict[str, Any] = generator().known_lines(
        (HOUSE / "docs" / "engine" / "operations.md").read_text()
    )
    return found


@pytest.mark.parametrize("part", range(PARTS))
def test_pytorchs_samples_give_what_the_page_says(part: int) -> None:
    """Whether some of an operation's samples differ, and which nodes there are."""
    ask(all_is_as_the_page_says if SEARCHING else a_few_are_as_the_page_says,
        ((name, name) for name in LISTED[part::PARTS]))  # fmt: skip


def a_few_are_as_the_page_says(name: str) -> None:
    from tests.runtime.core.ops.op_db import tallies
    from tests.runtime.core.ops.op_db.database import entries

    if name not in entries():
        assert name not in lines()  # the database has other names for it, or none
        return
    row = lines()[name]
    turn = LISTED.index(name) % len(IN_TURN)
    dtypes = (*ALWAYS, *(IN_TURN[(turn + i) % len(IN_TURN)] for i in (0, 4)))

    found = tallies.tally(name, dtypes, variants=False, at_most=EACH)

    assert row.passed < row.total or found.differences == []
    assert found.total
    assert {f"`{node}`" for node in found.nodes} <= set(row.nodes.split(", "))
    assert row.tier > 1 or row.passed == row.total


def all_is_as_the_page_says(name: str) -> None:
    from tests.runtime.core.ops.op_db.database import entries

    if name not in entries():
        assert name not in lines()
        return

    assert generator().line(name) == lines()[name]


@pytest.mark.parametrize("tier", NEEDED)
def test_a_tier_has_the_share_it_must_have(tier: int) -> None:
    rows = [row for row in lines().values() if row.tier == tier]

    assert sum(r.passed for r in rows) >= NEEDED[tier] * sum(r.total for r in rows)
