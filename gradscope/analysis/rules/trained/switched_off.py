"""Where gradients were switched off while a loss was computed."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.training import Training
from gradscope.trace.schema import GradOffAct, GraphTask, StepAct

FEW = 2
"""Number of blocks that are named."""


def off_before(training: Training, backwards: list[int]) -> list[Done[GradOffAct]]:
    """Blocks without gradients between the step before and each of these backwards, by time.

    One for each line: the most frequent line first, and for each line the block nearest to the
    backward.
    """
    offs = training.acts.of(GradOffAct)
    times, steps = [act.t for act in offs], [act.t for act in training.acts.of(StepAct)]
    often: Counter[str] = Counter()
    blocks: dict[str, Done[GradOffAct]] = {}
    for begin in backwards:
        place = bisect_left(steps, begin)
        since = bisect_left(times, steps[place - 1]) if place else 0
        inside = offs[since : bisect_left(times, begin)]
        near = {training.acts.place(act): act for act in inside[::-1]}
        often.update(near.keys())
        for line, act in near.items():
            blocks.setdefault(line, act)
    return [blocks[line] for line, _ in often.most_common(FEW)]


def off_before_steps(training: Training, tensors: set[int]) -> list[Done[GradOffAct]]:
    """The same for the backwards before the steps of these tensors' optimizers."""
    begins = sorted(training.trace.table(GraphTask)["begin"].tolist())
    last = {
        begins[place - 1]
        for optimizer in training.stepped
        if tensors & set(optimizer.tensors)
        for step in optimizer.steps
        if (place := bisect_left(begins, step.t))
    }
    return off_before(training, sorted(last))


def named(training: Training, blocks: list[Done[GradOffAct]]) -> str:
    """As in "the no_grad at line 39 and the inference_mode at line 41"."""
    return " and ".join(f"the {each.facts.by}{at(training.acts.site(each))}" for each in blocks)
