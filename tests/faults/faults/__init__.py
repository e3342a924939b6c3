"""The faults that are planted: a name that says what is wrong, and how to plant it.

A bug that got through joins one of these lists.
"""

from __future__ import annotations

from tests.faults.faults.history import HISTORY
from tests.faults.faults.recorder import RECORDER
from tests.faults.faults.runs import RUNS
from tests.faults.faults.users import USERS
from tests.faults.planting import Plant

ENGINE: dict[str, Plant] = {**HISTORY, **RUNS, **USERS}

__all__ = ["ENGINE", "RECORDER"]
