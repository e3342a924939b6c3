"""How many steps ran, were recorded and were measured, in words."""

from __future__ import annotations

from gradscope.analysis.timing.long_run import LongRun
from gradscope.scene.readable import count, plural


def summary_words(run: LongRun) -> str:
    """How many steps were measured, and why not more."""
    whole, losses = run.with_parameters, sum(each.has_loss for each in run.measured)
    of = f" of {plural(run.steps, 'step')}"
    if whole:
        words = f"measured in {count(whole)}{of}"
        words += f", the loss in {count(losses)}" if losses > whole else ""
    else:
        words = f"the loss was read in {count(losses)}{of}"
    if whole < run.steps:
        words += ": as many as take 1% of the time"
    if run.stride > 1:
        words += f", and in the end at most one in {count(run.stride)}"
    return words


def steps_words(run: LongRun) -> str:
    """As in "2,000 steps ran, 3 were recorded"."""
    recorded = len(run.recorded)
    were = "was" if recorded == 1 else "were"
    return f"{plural(run.steps, 'step')} ran, {count(recorded)} {were} recorded"
