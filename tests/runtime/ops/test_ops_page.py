"""PyTorch's own samples of every operation of the first two tiers, as docs/ops.md counts them."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.ops.database import tiers

HOUSE = Path(__file__).parents[3]
NEEDED = {1: 1.0, 2: 0.97}
"""The share of a tier's samples that must pass."""

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@cache
def generator() -> Any:
    """docs/ops.py."""
    spec = importlib.util.spec_from_file_location("ops_page", HOUSE / "docs" / "ops.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = made
    spec.loader.exec_module(made)
    return made


@cache
def lines() -> dict[str, Any]:
    """The rows of the page by name."""
    found: dict[str, Any] = generator().known_lines((HOUSE / "docs" / "ops.md").read_text())
    return found


@pytest.mark.parametrize("name", [n for n, tier in tiers().items() if tier in NEEDED])
def test_pytorchs_samples_give_what_they_give_on_pytorch(name: str) -> None:
    from tests.runtime.ops.database import entries

    if name not in entries():
        assert name not in lines()  # the database has other names for it, or none
        return

    found = generator().line(name)

    assert found == lines()[name]
    assert found.tier > 1 or found.passed == found.total


@pytest.mark.parametrize("tier", NEEDED)
def test_a_tier_has_the_share_it_must_have(tier: int) -> None:
    rows = [row for row in lines().values() if row.tier == tier]

    assert sum(r.passed for r in rows) >= NEEDED[tier] * sum(r.total for r in rows)
