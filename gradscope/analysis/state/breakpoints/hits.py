"""The moments at which a breakpoint stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradscope.analysis.state.breakpoints.conditions import holding
from gradscope.analysis.state.breakpoints.kinds import found
from gradscope.analysis.state.breakpoints.language import Breakpoint, read

if TYPE_CHECKING:
    from gradscope.analysis.lookups import Ids
    from gradscope.trace.trace import Trace


def hits(trace: Trace, breakpoint_: Breakpoint | str) -> Ids:
    """All moments of a trace at which a breakpoint stops, sorted."""
    wanted = read(breakpoint_) if isinstance(breakpoint_, str) else breakpoint_
    moments = found(trace, wanted.kind, wanted.wanted)
    for condition in wanted.conditions:
        moments = holding(trace, condition, moments)
    return moments[wanted.nth - 1 : wanted.nth] if wanted.nth else moments
