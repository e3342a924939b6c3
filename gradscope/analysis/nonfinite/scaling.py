"""Gradients that a GradScaler threw away: it tries a scale, and takes a smaller one next time."""

from __future__ import annotations

import numpy as np

from gradscope.trace.schema import NONE, Phase, Span
from gradscope.trace.trace import Trace

STEP = "GradScaler.step"


class Scaling:
    """Which of its steps were skipped, and made up for by a later one."""

    def __init__(self, trace: Trace) -> None:
        spans = trace.table(Span)
        steps = np.flatnonzero([trace.text(name) == STEP for name in spans["name"].tolist()])
        optimizing = spans["parent"][spans["phase"] == Phase.OPTIMIZER]
        order = steps[np.argsort(spans["begin"][steps], kind="stable")]
        made = np.isin(spans["id"][order], optimizing[optimizing != NONE])
        self._begins = spans["begin"][order]
        last = int(np.flatnonzero(made)[-1]) if made.any() else -1
        self._forgiven = ~made & (np.arange(len(order)) < last)

    def threw_away(self, t: int) -> bool:
        """Whether the gradients of this moment were not used, and later ones were."""
        following = int(np.searchsorted(self._begins, t))
        return following < len(self._begins) and bool(self._forgiven[following])
