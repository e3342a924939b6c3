"""Small programs that notice when the engine or the recorder is wrong: each fails then.

What they expect follows from the rules of the engine, and holds on PyTorch's too. They compare with
numbers worked out by hand or by finite differences, with what a user would see, or with what every
trace keeps.
"""

from __future__ import annotations

from tests.faults.detectors import functions, gradients, hooks, runs, saved, views
from tests.faults.detectors.common import DETECTORS, Detector
from tests.faults.detectors.recordings import RECORDINGS

__all__ = ["DETECTORS", "RECORDINGS", "Detector"]
__all__ += ["functions", "gradients", "hooks", "runs", "saved", "views"]
