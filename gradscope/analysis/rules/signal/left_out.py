"""NaN and Inf in steps that were not recorded, which their summaries show."""

from __future__ import annotations

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.program.summary import recorded_again
from gradscope.analysis.rules.registry import Found
from gradscope.analysis.timing.long_run import FirstBad, LongRun, first_bad
from gradscope.trace.schema import Step
from gradscope.trace.trace import Trace

WIDEST = 100
"""Largest number of steps that are worth recording to find the first of them."""


def found_in_left_out_steps(trace: Trace) -> Found | None:
    """The first step with a value that is not finite, if it was left out of the recording."""
    run, bad = trace.once(LongRun), first_bad(trace)
    if bad is None or bad.first.number in run.recorded:
        return None
    first, before = bad.first, bad.before
    message = (
        f"{first.kind}: {first.what} {_were(first.what)} not finite in step {first.number}, "
        "which was not recorded"
    )
    if before is not None:
        message += f"; all that was measured of step {before.number} was finite"
    return Found(
        message=message,
        site=Site(),
        evidence=(Evidence(Step.TABLE, first.step.id),),
        why=_why(bad),
        fix=_fix(trace, bad),
        certainty=Certainty.INFERRED,
    )


def _were(what: str) -> str:
    return "was" if what == "the loss" else "were"


def _why(bad: FirstBad) -> str:
    since = bad.first.number if bad.before is None else bad.before.number + 1
    between = bad.first.number - since
    why = "only summaries of steps that are left out are recorded, not the calls that produced it"
    if between > 0:
        steps = f"steps {since} to {bad.first.number - 1}"
        why += f"; nothing was measured of {steps if between > 1 else f'step {since}'}"
    return why


def _fix(trace: Trace, bad: FirstBad) -> str:
    last = bad.first.number
    since = bad.before.number if bad.before is not None else max(last - 1, 0)
    if last - since > WIDEST:
        since = last - WIDEST
    command = recorded_again(trace, "--level", "values", "--steps", f"{since}:{last}")
    return f"`{command}` names the call that produced it"
