"""What the acts of a trace say, for tests."""

from __future__ import annotations

from typing import Any

from gradscope.analysis.program.acts import Acts, said_by
from gradscope.trace.schema import Act
from gradscope.trace.trace import Trace


def acts(trace: Trace, kind: str) -> list[Act]:
    """The rows of one kind."""
    return [act for act in trace.rows(Act) if act.kind == kind]


def said(trace: Trace, act: Act) -> dict[str, Any]:
    """The columns of its kind that say something."""
    return dict(said_by(trace.once(Acts).by_id[act.id].facts))


def all_said(trace: Trace, kind: str) -> list[dict[str, Any]]:
    """The same of all acts of a kind."""
    return [said(trace, act) for act in acts(trace, kind)]
