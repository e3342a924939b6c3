"""Ranks and steps as a table of levels. Ranks with the same levels share a row."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.lookups import Ids, grouped
from gradscope.analysis.ranks.heat import Floats, RankSteps
from gradscope.analysis.ranks.whose import listed
from gradscope.scene.choices import RankHeat
from gradscope.scene.readable import count, duration, plural
from gradscope.trace.schema import NONE

Facts: TypeAlias = dict[str, Any]
Columns: TypeAlias = dict[str, NDArray[Any]]

TITLES = {
    RankHeat.TIME: "time of each step, without recorded waits for other ranks",
    RankHeat.GRADIENT: "norm of all gradients in each step",
    RankHeat.NON_FINITE: "recorded tensors with NaN or Inf in each step",
    RankHeat.ALIKE: "ranks with equal counts of nodes, backwards and collectives",
}
NOT_RECORDED = {
    RankHeat.TIME: "no step has ended",
    RankHeat.GRADIENT: "no gradients were measured: no optimizer of torch.optim stepped, or not at "
    "--level engine or values",
    RankHeat.NON_FINITE: "values of tensors are not recorded; record it with --level values",
    RankHeat.ALIKE: "there are no steps",
}
LIMITS = {RankHeat.TIME: (0.8, 1.25, 2.0, 4.0), RankHeat.GRADIENT: (0.1, 2.0, 10.0, 100.0)}
"""Factors of the median that separate the levels."""
LESS, SAME, MORE, MUCH, MOST = range(5)
"""Levels; NONE: nothing was recorded. Groups that are alike have the levels from SAME on."""
LEVEL_WORDS = {
    RankHeat.TIME: {
        LESS: "below 0.8 × the median of the step",
        SAME: "about the median of the step",
        MORE: "from 1.25 × on",
        MUCH: "from 2 × on",
        MOST: "from 4 × on",
    },
    RankHeat.GRADIENT: {
        LESS: "below 0.1 × the median",
        SAME: "up to 2 × the median",
        MORE: "from 2 × on",
        MUCH: "from 10 × on",
        MOST: "from 100 × on",
    },
    RankHeat.NON_FINITE: {SAME: "none", MOST: "some"},
    RankHeat.ALIKE: {SAME: "the largest group", MORE: "the second one, and so on"},
}


@dataclass(frozen=True, slots=True)
class HeatRow:
    """Ranks that have the same levels."""

    title: str
    levels: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeatScene:
    """A table of levels."""

    what: RankHeat
    title: str
    columns: tuple[int, ...]  # the number of the first step of each column
    rows: tuple[HeatRow, ...]
    notes: tuple[str, ...]


def heat_scene(found: RankSteps, what: RankHeat, columns: int, rows: int) -> HeatScene:
    """At most so many columns and rows; 0 rows: all."""
    levels = heat_levels(found, what)
    width = math.ceil(len(found.steps) / columns)
    starts = [*range(0, len(found.steps), width)]
    seen = np.stack([levels[:, at : at + width].max(axis=1) for at in starts], axis=1)
    notes = [f"a column is {plural(width, 'step')}, and shows the highest level"] * (width > 1)
    if (levels == NONE).all():
        notes.append(NOT_RECORDED[what])
    elif extreme := _extreme(found, what):
        notes.append(extreme)
    return HeatScene(
        what,
        TITLES[what],
        tuple(found.steps[at] for at in starts),
        tuple(_rows(found.ranks, seen, rows)),
        tuple(notes),
    )


def heat_levels(found: RankSteps, what: RankHeat) -> Ids:
    """The level of each rank and step."""
    if what is RankHeat.NON_FINITE:
        return np.where(found.non_finite > 0, MOST, np.where(found.non_finite == 0, SAME, NONE))
    if what is RankHeat.ALIKE:
        return np.where(found.alike == NONE, NONE, found.alike + SAME)
    values = cell_values(found, what)
    ratios = values / _medians(values, what)
    levels = np.searchsorted(LIMITS[what], ratios, "right")
    return np.where(np.isnan(values), NONE, levels)


def cell_values(found: RankSteps, what: RankHeat) -> Floats:
    """The number in each cell; NaN where nothing was recorded."""
    if what is RankHeat.GRADIENT:
        return found.norm
    numbers = {
        RankHeat.TIME: found.ns,
        RankHeat.NON_FINITE: found.non_finite,
        RankHeat.ALIKE: found.alike,
    }
    return np.where(numbers[what] == NONE, np.nan, numbers[what])


def _medians(values: Floats, what: RankHeat) -> Floats:
    """What levels are relative to: times to those of all ranks in the step, norms to all others."""
    known = ~np.isnan(values)
    found = np.ones((1, values.shape[1]))
    if what is RankHeat.GRADIENT:
        found *= np.median(values[known]) if known.any() else 1.0
    else:
        for step in np.flatnonzero(known.any(axis=0)).tolist():
            found[0, step] = np.median(values[known[:, step], step])
    return np.maximum(found, np.finfo(np.float64).tiny)


def _extreme(found: RankSteps, what: RankHeat) -> str:
    """The cell that is furthest above the others, in words; "": none is."""
    if what is RankHeat.ALIKE:
        apart = np.argwhere(found.alike > 0)
        if not len(apart):
            return "all ranks had equal counts in all steps"
        rank, step = apart[np.argmin(apart[:, 1])].tolist()
        return f"first difference: {_cell(found, rank, step)}"
    values = cell_values(found, what)
    ratios = np.where(np.isnan(values), -np.inf, values / _medians(values, what))
    rank, step = np.unravel_index(int(np.argmax(ratios)), values.shape)
    value, cell = values[rank, step], _cell(found, int(rank), int(step))
    if what is RankHeat.NON_FINITE:
        return f"most: {cell}, {plural(int(value), 'tensor')}" if value else "none"
    if what is RankHeat.GRADIENT:
        return f"largest: {cell}, {value:.4g}"
    return f"slowest: {cell}, {duration(int(value))}, {ratios[rank, step]:.3g} × the median"


def _cell(found: RankSteps, rank: int, step: int) -> str:
    return f"rank {found.ranks[rank]}, step {found.steps[step]}"


def _rows(ranks: tuple[int, ...], levels: Ids, most: int) -> list[HeatRow]:
    """The rows, by their first rank. If there are too many, the lowest levels share one."""
    same = grouped(range(len(ranks)), lambda at: levels[at].tobytes())
    groups = [[*each] for each in same.values()]
    rest: list[int] = []
    if most and len(groups) > most:
        largest = max(groups, key=len)
        others = [each for each in groups if each is not largest]
        others.sort(key=lambda each: (-levels[each[0]].max(), -levels[each[0]].sum()))
        rest = sorted(at for each in others[most - 2 :] for at in each)
        kept = [largest, *others[: most - 2]]
        groups = [each for each in groups if any(each is one for one in kept)]
    made = [
        HeatRow(listed([ranks[at] for at in each]), tuple(levels[each[0]].tolist()))
        for each in groups
    ]
    if rest:
        highest = levels[rest].max(axis=0)
        title = f"highest of {count(len(rest))} other ranks"
        made.append(HeatRow(title, tuple(highest.tolist())))
    return made


def heat_facts(found: RankSteps, what: RankHeat) -> dict[str, object]:
    """The same as `heat_scene` for programs: all cells, and the ranks that share a row."""
    values, levels = cell_values(found, what), heat_levels(found, what)
    same = grouped(range(len(found.ranks)), lambda at: levels[at].tobytes())
    return {
        "shows": str(what),
        "unit": "ns" if what is RankHeat.TIME else "",
        "ranks": [*found.ranks],
        "steps": [*found.steps],
        "cells": [[None if math.isnan(cell) else cell for cell in row] for row in values.tolist()],
        "levels": levels.tolist(),
        "rows": [[found.ranks[at] for at in each] for each in same.values()],
    }


def heat_columns(found: RankSteps, numbers: Collection[int]) -> tuple[Facts, Columns]:
    """The same for the page: its words, and columns with all ranks of these steps in turn."""
    shown = np.flatnonzero(np.isin(found.steps, [*numbers]))
    columns: Columns = {}
    for what in RankHeat:
        columns[str(what)] = heat_levels(found, what)[:, shown].ravel()
    for what, cells in (
        (RankHeat.TIME, found.ns),
        (RankHeat.GRADIENT, found.norm),
        (RankHeat.NON_FINITE, found.non_finite),
    ):
        columns[f"{what}_value"] = cells[:, shown].ravel()
    facts: Facts = {
        "steps": [found.steps[at] for at in shown.tolist()],
        "shows": {
            str(what): {
                "title": TITLES[what],
                "missing": NOT_RECORDED[what],
                "levels": [[level, words] for level, words in LEVEL_WORDS[what].items()],
            }
            for what in RankHeat
        },
    }
    return facts, columns
