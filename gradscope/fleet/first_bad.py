"""The first steps with NaN or Inf in a file of a fleet: an export lists them, and `ask` reads them.

So the question `first-nan` need not open the files of all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gradscope.fleet.export.cells import FleetCells

FirstBad = Mapping[str, int | None]
"""The first step with NaN or Inf ("bad"), and the first one with NaN ("nan"); None: no step."""

OUTSIDE = 4 * 10**18
"""Stands for rows outside of steps: they come after all steps."""
OP_OUTPUT = "op_output"
COPIES = (
    "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "detach", "detach_",
    "alias", "clone", "copy_", "view", "as_strided", "slice", "select", "narrow", "split",
    "split_with_sizes", "chunk", "unbind", "t", "transpose", "permute", "reshape", "_reshape_alias",
    "_unsafe_view", "expand", "squeeze", "unsqueeze", "flatten", "contiguous",
)  # fmt: skip
"""Operations whose results do not count: NaN in them comes from elsewhere, or means nothing."""


def first_bad(table: str, columns: Mapping[str, FleetCells]) -> FirstBad | None:
    """The first steps with NaN or Inf of the tables that hold statistics; of others None."""
    if table not in {"value", "grad"}:
        return None
    step = columns["step"]
    numbers = step.values if step.known is None else np.where(step.known, step.values, OUTSIDE)
    bad = _positive(columns["bad"])
    if table == "value":
        bad &= ~(_is(columns["place"], {OP_OUTPUT}) & _is_copy(columns["name"]))
    found: dict[str, int | None] = {}
    for name, rows in (("bad", bad), ("nan", bad & _positive(columns["nan"]))):
        found[name] = int(numbers[rows].min()) if rows.any() else None
    return found


def _positive(cells: FleetCells) -> np.ndarray:
    found: np.ndarray = np.asarray(cells.values, np.int64) > 0
    return found if cells.known is None else found & cells.known


def _is_copy(names: FleetCells) -> np.ndarray:
    assert names.texts is not None
    return _is(names, {each for each in names.texts.texts if each.partition(".")[0] in COPIES})


def _is(cells: FleetCells, words: set[str]) -> np.ndarray:
    """Which cells of a text column have one of these words."""
    assert cells.texts is not None
    chosen = np.array([each in words for each in cells.texts.texts], bool)
    if not chosen.any():
        return np.zeros(len(cells.values), bool)
    found: np.ndarray = chosen[cells.values]
    return found if cells.known is None else found & cells.known
