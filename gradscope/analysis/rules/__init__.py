"""Everything `gradscope inspect` looks for: one function for each rule, by topic."""

from __future__ import annotations

from gradscope.analysis.rules import (
    engine,
    functions,
    numbers,
    ownership,
    recording,
    saved_values,
    training,
)
from gradscope.analysis.rules.graphs import (
    kept_graphs,
    pairs,
    recomputed,
    retained_graphs,
    unused_graphs,
    written_names,
    written_unseen,
)
from gradscope.analysis.rules.loop import (
    accumulation,
    again,
    clipping,
    copies,
    lost,
    modes,
    optimizers,
    order,
    schedules,
    steps,
    switches,
    weights,
)
from gradscope.analysis.rules.registry import Rule, registered
from gradscope.analysis.rules.signal import activations, gradients, hooks, not_finite, updates
from gradscope.analysis.rules.structure import (
    broadcasts,
    dtypes,
    indexing,
    losses,
    mixed_up,
    normalised,
    recurrent,
    samples,
    statements,
    wrong_dims,
)
from gradscope.analysis.rules.trained import (
    bootstrapped,
    cut_inside,
    cut_terms,
    names,
    no_history,
    no_slope,
    nothing_to_step,
    sampled,
    unused,
    zeroed,
)

__all__ = ["all_rules"]

TOPICS = (
    recording,
    numbers,
    engine,
    saved_values,
    training,
    ownership,
    no_history,
    no_slope,
    nothing_to_step,
    unused,
    zeroed,
    cut_terms,
    cut_inside,
    sampled,
    names,
    bootstrapped,
    functions,
    kept_graphs,
    unused_graphs,
    written_names,
    retained_graphs,
    pairs,
    recomputed,
    written_unseen,
    order,
    lost,
    clipping,
    schedules,
    optimizers,
    steps,
    accumulation,
    modes,
    switches,
    again,
    weights,
    copies,
    losses,
    broadcasts,
    dtypes,
    mixed_up,
    indexing,
    normalised,
    recurrent,
    samples,
    statements,
    wrong_dims,
    activations,
    gradients,
    updates,
    hooks,
    not_finite,
)
"""The modules that declare rules; a new one is added here."""


def all_rules() -> tuple[Rule, ...]:
    """Every rule, by id."""
    return registered()
