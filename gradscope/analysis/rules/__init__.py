"""Everything `gradscope inspect` looks for: one function for each rule, by topic."""

from __future__ import annotations

from gradscope.analysis.rules import (
    engine,
    functions,
    kept_graphs,
    no_slope,
    numbers,
    ownership,
    recording,
    retained_graphs,
    saved_values,
    training,
)
from gradscope.analysis.rules.registry import Rule, registered

__all__ = ["all_rules"]

TOPICS = (
    recording,
    numbers,
    engine,
    saved_values,
    training,
    ownership,
    no_slope,
    functions,
    kept_graphs,
    retained_graphs,
)
"""The modules that declare rules; a new one is added here."""


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    return registered()
