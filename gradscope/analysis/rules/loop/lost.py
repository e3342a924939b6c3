"""Rules about gradients that are discarded, or changed where no step uses the change."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import Optimizer, by_of
from gradscope.analysis.program.loop import Beat, Loop, LoopMoment
from gradscope.analysis.rules.loop.words import evidence, line, often
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.files import SourceFiles
from gradscope.analysis.source.filters import reads
from gradscope.trace.schema import Accumulate, Source
from gradscope.trace.trace import Trace

CLEARS = re.compile(r"\bzero_grad\(|\.grad\s*=\s*None")
"""A line that clears gradients itself, and calls nothing that may use them first."""

Overtaken = tuple[LoopMoment, LoopMoment, LoopMoment, LoopMoment]
"""A backward, what cleared all its gradients, the next backward, and the step."""


def thrown_away(loop: Loop, optimizer: Optimizer) -> Iterator[Found]:
    """Backwards whose gradients are all cleared, each time, before the step."""
    rounds = [each for each in loop.rounds(optimizer) if _steps_with_some(each)]
    several: dict[tuple[int, int], list[Overtaken]] = defaultdict(list)
    for moments in rounds:
        for found in _overtaken(loop, moments):
            if _another_stepped(loop, optimizer, found[0], found[1]):
                continue  # it belongs to the other's iteration
            several[found[0].stack, found[1].stack].append(found)
    for together in several.values():
        fill, clear, later, step = together[0]
        few = len(together) < 2 or 2 * len(together) < len(rounds)
        site, first = loop.site(clear), loop.site(fill)
        if few or not CLEARS.search(site.text) or _is_looked_at(loop, fill, clear):
            continue
        yield Found(
            message=f"gradients are cleared too early: zero_grad{at(site)} discards all gradients "
            f"of the backward{at(first)}; the step{at(loop.site(step))} uses only those of the "
            f"backward{at(loop.site(later))}",
            site=site,
            evidence=evidence(fill, clear, later, step),
            why=f"nothing stepped with them or read them between these lines, "
            f"{often(len(together), len(rounds), 'steps')}",
            fix=f"remove {line(site, 'optimizer.zero_grad()')} there; gradients of several "
            "backwards add up",
            certainty=Certainty.INFERRED,
        )


def _steps_with_some(moments: list[LoopMoment]) -> bool:
    return (
        bool(moments)
        and moments[-1].beat is Beat.STEPPED
        and sum(each.beat is Beat.FILLED for each in moments) > 1
    )


def _overtaken(loop: Loop, moments: list[LoopMoment]) -> Iterator[Overtaken]:
    fill: LoopMoment | None = None
    clear: LoopMoment | None = None
    for moment in moments:
        if moment.beat is Beat.CLEARED:
            whole = fill is not None and moment.tensors >= fill.tensors and _is_all(loop, fill)
            clear = moment if whole else None
            fill = fill if whole else None
        elif moment.beat is Beat.FILLED:
            if fill is not None and clear is not None and fill.stack != moment.stack:
                yield fill, clear, moment, moments[-1]
            fill = moment if fill is None or clear is not None else None
            clear = None
        else:
            fill = clear = None


def _another_stepped(loop: Loop, optimizer: Optimizer, fill: LoopMoment, clear: LoopMoment) -> bool:
    others = (each for each in loop.in_use if each is not optimizer)
    return any(fill.t < step.t < clear.t for each in others for step in each.steps)


def _is_all(loop: Loop, fill: LoopMoment) -> bool:
    """Whether the tensors this backward filled are all that it filled."""
    return loop.trace.once(_brought).get(fill.id, 0) <= fill.tensors


def _brought(trace: Trace) -> dict[int, int]:
    """How many gradients each backward accumulated."""
    tasks, many = np.unique(trace.table(Accumulate)["task"], return_counts=True)
    return dict(zip(tasks.tolist(), many.tolist(), strict=True))


def _is_looked_at(loop: Loop, fill: LoopMoment, clear: LoopMoment) -> bool:
    """Whether the program reads gradients between two lines, or in a function it may call there."""
    if not loop.trace.sees(Source.TABLE):
        return True  # unknown
    first, last = loop.site(fill), loop.site(clear)
    for each in loop.trace.once(SourceFiles).each(reads):
        site = each.site
        if each.found.apart or (site.file == first.file and first.line <= site.line <= last.line):
            return True
    return first.file != last.file


@rule("GS519", "changed-after-the-step", reads=("accumulate", "act"), steps="each")
def changed_after_the_step(trace: Trace) -> Iterator[Found]:
    """Gradients are divided, scaled or replaced after the step, and cleared before the next one.

    No step uses the change: gradients of a multiplied loss stay too large by that factor, and
    gradients that should be averaged between processes are not.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        for _ in range(3):
            optimizer.zero_grad()
            (8 * model(torch.ones(3, 2)).pow(2).mean()).backward()
            optimizer.step()
            for p in model.parameters():
                p.grad.div_(8)

    Good:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
        for _ in range(3):
            optimizer.zero_grad()
            (8 * model(torch.ones(3, 2)).pow(2).mean()).backward()
            for p in model.parameters():
                p.grad.div_(8)
            optimizer.step()
    """
    loop = trace.once(Loop)
    told: set[int] = set()
    for optimizer in loop.in_use:
        late, timely = _late_writes(loop.moments(optimizer))
        for stack, several in late.items():
            if len(several) < 2 or stack in timely or stack in told:
                continue
            told.add(stack)
            step, write, clear = several[0]
            site, stepped = loop.site(write), loop.site(step)
            callers = [each for each in loop.sites(write)[1:] if each.place != site.place]
            called = f", called{at(callers[0])}," if callers else ""
            yield Found(
                message=f"gradients are changed after the step: {_how(write)}{at(site)}{called} "
                f"comes after the step{at(stepped)}, and they are cleared{at(loop.site(clear))} "
                "before the next one",
                site=site,
                evidence=evidence(step, write, clear),
                why=f"{optimizer.type} never steps with the changed gradients, "
                f"{often(len(several), len(optimizer.steps), 'steps')}",
                fix=f"move {line(callers[0] if callers else site, 'it')} before "
                f"{line(stepped, 'optimizer.step()')}",
            )


def _how(write: LoopMoment) -> str:
    return by_of(write.facts) or "the assignment to `.grad`"


Late = tuple[LoopMoment, LoopMoment, LoopMoment]
"""A step, a write after it, and what clears that."""


def _late_writes(moments: list[LoopMoment]) -> tuple[dict[int, list[Late]], set[int]]:
    """Writes that no step used, by line; and the lines of those that a step did use."""
    late: dict[int, list[Late]] = defaultdict(list)
    timely: set[int] = set()
    step: LoopMoment | None = None
    writes: dict[int, LoopMoment] = {}
    for moment in moments:
        if moment.beat is Beat.WRITTEN:
            if step is None:
                timely.add(moment.stack)
            else:
                writes.setdefault(moment.stack, moment)
        elif moment.beat is Beat.CLEARED and step is not None:
            for stack, write in writes.items():
                late[stack].append((step, write, moment))
            writes = {}
        elif moment.beat is Beat.FILLED:
            timely |= set(writes)
            step, writes = None, {}
        elif moment.beat is Beat.STEPPED:
            timely |= set(writes)
            step, writes = moment, {}
    return late, timely
