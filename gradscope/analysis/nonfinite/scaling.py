"""Gradients that a GradScaler discarded: it tries a scale, and uses a smaller one next time."""

from __future__ import annotations

import numpy as np

from gradscope.analysis.program.acts import Acts
from gradscope.trace.schema import NONE, ScaledStepAct, UnscaleAct
from gradscope.trace.trace import Trace


class Scaling:
    """Which steps of a GradScaler were skipped and followed by one that was not.

    The very last step may be skipped as well: the scaler then tries a larger scale.
    """

    def __init__(self, trace: Trace) -> None:
        acts = trace.once(Acts)
        steps = acts.of(ScaledStepAct)
        self._unscaled = [act.t for act in acts.of(UnscaleAct)]
        skipped = np.array([step.facts.skipped for step in steps], bool)
        self._ends = [step.t for step in steps]
        last = int(np.flatnonzero(~skipped)[-1]) if not skipped.all() else -1
        if last == len(steps) - 2:
            last += 1
        self._forgiven = skipped & (np.arange(len(steps)) <= last) & ~skipped.all()

    def threw_away(self, t: int, *, in_backward: bool) -> bool:
        """Whether the gradients of this moment were discarded and later ones were used.

        Outside a backward they count only after `unscale_`, as when they are clipped.
        """
        following = int(np.searchsorted(self._ends, t))
        if following == len(self._ends) or not self._forgiven[following]:
            return False
        earlier = self._ends[following - 1] if following else NONE
        return in_backward or any(earlier < unscaled <= t for unscaled in self._unscaled)
