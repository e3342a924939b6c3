"""Leaves that a pipeline receives: memory that was read before it was filled."""

from __future__ import annotations

from gradscope.analysis.identity.sites import own_site
from gradscope.analysis.nonfinite.births import Birth
from gradscope.trace.schema import NONE, Collective, Phase, Place, Span
from gradscope.trace.schema.sharding import GOES_ON
from gradscope.trace.trace import Trace

RECEIVES = ("recv", "batch_isend_irecv")


def may_be_filled_later(trace: Trace, birth: Birth, line: str) -> bool:
    """Whether it is in a leaf that was made at a line that also receives tensors."""
    return birth.place is Place.LEAF and line in trace.once(_lines)


def _lines(trace: Trace) -> frozenset[str]:
    """The lines of the program that receive tensors, directly or not."""
    spans = {
        row.id
        for row in trace.rows(Span)
        if row.phase == Phase.COLLECTIVE and row.name.removesuffix(GOES_ON) in RECEIVES
    }
    return frozenset(
        own_site(trace, row.stack).place
        for row in trace.rows(Collective)
        if row.span in spans and row.stack != NONE
    )
