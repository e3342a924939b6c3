"""Verifies a file of values: every run of a node in it is computed again."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gradscope.record.acts.kept.node_values import read
from gradscope.record.from_runtime.again.compare import NodeVerdict, judged

if TYPE_CHECKING:
    from gradscope.watch.in_place.node_runs import CopiedRun

NO_TIME = "no time"


def verified(path: Path, seconds: float = math.inf) -> list[tuple[CopiedRun, NodeVerdict]]:
    """Each run in the file, and its verdict; after `seconds`, no run is begun."""
    until = perf_counter() + seconds
    return [
        (run, judged(run) if perf_counter() < until else NodeVerdict(NO_TIME)) for run in read(path)
    ]


def as_json(found: list[tuple[CopiedRun, NodeVerdict]]) -> dict[str, Any]:
    """The same as JSON: one object per run."""
    return {
        "runs": [{"kind": run.kind, "node": run.node, **asdict(verdict)} for run, verdict in found]
    }
