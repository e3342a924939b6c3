"""Rules about repeated work: hooks registered, generators seeded, weights filled."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done, Optimizer
from gradscope.analysis.program.loop import Loop
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    NONE,
    ActFacts,
    FilledAct,
    GradOffAct,
    GraphTask,
    HookAct,
    Module,
    SeedAct,
    Tensor,
)
from gradscope.trace.trace import Trace


@rule("GS911", "hooked-again", reads=("act",))
def hooked_again(trace: Trace) -> Iterator[Found]:
    """A hook is registered repeatedly without removing the earlier one: one more in every step.

    Bad:
        w = torch.ones(3, requires_grad=True)
        for _ in range(3):
            w.register_hook(lambda grad: 0.9 * grad)
            (w * 2).sum().backward()
            w.grad = None

    Good:
        w = torch.ones(3, requires_grad=True)
        for _ in range(3):
            handle = w.register_hook(lambda grad: 0.9 * grad)
            (w * 2).sum().backward()
            handle.remove()
            w.grad = None
    """
    loop = trace.once(Loop)
    begins = sorted(trace.table(GraphTask)["begin"].tolist())
    hooks = (act for act in loop.acts.of(HookAct) if act.module != NONE or act.tensors)
    several = grouped(hooks, lambda act: (act.stack, act.module, act.tensors))
    told: set[int] = set()
    for (stack, _, _), acts in several.items():
        again = [
            later
            for earlier, later in pairwise(acts)
            if later.facts.many > earlier.facts.many
            and bisect_right(begins, later.t) > bisect_right(begins, earlier.t)
        ]
        if again and len(again) == len(acts) - 1 and stack not in told:
            told.add(stack)
            yield _again(loop, acts)


def _again(loop: Loop, acts: list[Done[HookAct]]) -> Found:
    act, last = acts[0], acts[-1]
    site = loop.acts.site(act)
    outer, by = loop.acts.called(act), act.facts.by
    return Found(
        message=f"a hook is registered repeatedly: {by}{at(site)}{outer} was called "
        f"{len(acts)} times for {_attended(loop.trace, act)}, and no hook was removed",
        site=site,
        evidence=(Evidence("act", act.id), Evidence("act", last.id)),
        why=f"{last.facts.many} hooks were registered when the last was added; each runs every "
        "time, and keeps what it refers to alive",
        fix=f"register it once, before the loop, or keep the handle: `handle = "
        f"{line(site, by + '(…)').strip('`').rpartition(' = ')[2]}`, and call `handle.remove()`",
    )


def _attended(trace: Trace, act: Done[ActFacts]) -> str:
    modules, tensors = trace.table(Module), trace.table(Tensor)
    if act.module != NONE and modules.has(act.module):
        row = modules.row(act.module)
        return f"{row.type} ({row.path})" if row.path else row.type
    if act.tensors and tensors.has(act.tensors[0]) and tensors.row(act.tensors[0]).name:
        return tensors.row(act.tensors[0]).name
    return "the same tensor"


@rule("GS912", "reseeded", reads=("act",))
def reseeded(trace: Trace) -> Iterator[Found]:
    """The same seed is set repeatedly during one training: it draws the same numbers again.

    Noise, dropout masks and the order of data are then the same in every epoch. The rule does not
    report runs that are compared, each with its own optimizer; code inside `fork_rng`; and lines
    that set several seeds, such as the index of an item. It is a note if a new generator is created
    and seeded each time: it may be for one matrix that stays fixed.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            torch.manual_seed(0)
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()

    Good:
        torch.manual_seed(0)
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop = trace.once(Loop)
    seeds = loop.acts.of(SeedAct)
    restored = [act.t for act in seeds if act.facts.by]
    several: dict[tuple[int, str], list[Done[SeedAct]]] = defaultdict(list)
    set_at: dict[Any, set[str]] = defaultdict(set)  # seeds, by line
    for act in seeds:
        seed = act.facts.seed
        if seed and not act.facts.by and _is_the_engines(act):
            several[act.stack, seed].append(act)
            set_at[loop.acts.site(act)].add(seed)
    for (_, seed), acts in several.items():
        site = loop.acts.site(acts[0])
        once = len(acts) < 2 or len(set_at[site]) > 1 or not _goes_on(loop, acts)
        if once or _is_enclosed(loop, acts, restored):
            continue
        own = acts[0].facts.whose == "generator"
        anew = own and not any(act.facts.again for act in acts)
        of = " of a torch.Generator" if own else ""
        yield Found(
            message=f"the same seed is set repeatedly: manual_seed({seed}){of}{at(site)} was "
            f"called {len(acts)} times during one training",
            site=site,
            evidence=(Evidence("act", acts[0].id), Evidence("act", acts[-1].id)),
            why="each call creates a new generator, which draws the same numbers again"
            if anew
            else "each call makes the same random numbers come again: the same noise, dropout "
            "masks and order of data",
            fix="create and seed the generator once, before the loop, and keep drawing from it"
            if own
            else "set it once, before the loop, or use a different seed each time: "
            f"`torch.manual_seed({seed} + epoch)`",
            certainty=Certainty.SUSPECTED,
            severity=Severity.NOTE if anew or _is_in_evaluation(loop, acts[0], own=own) else None,
        )


def _is_the_engines(act: Done[SeedAct]) -> bool:
    """Whether it is a generator of the engine: its own one, or one that the program created."""
    return act.facts.whose in {"", "generator"}


def _goes_on(loop: Loop, acts: list[Done[SeedAct]]) -> bool:
    """Whether one optimizer steps after each of at least two of them."""
    times = [act.t for act in acts]
    for optimizer in loop.in_use:
        after = {bisect_right(times, step.t) for step in optimizer.steps} - {0}
        if len(after) > 1:
            return True
    return False


def _is_enclosed(loop: Loop, acts: list[Done[SeedAct]], restored: list[int]) -> bool:
    """Whether the earlier state is restored, or was saved, before the next step."""
    steps = sorted(step.t for each in loop.in_use for step in each.steps)
    for act in acts:
        place = bisect_right(steps, act.t)
        before = steps[place - 1] if place else -1
        until = steps[place] if place < len(steps) else act.t
        if any(before < t < until for t in restored):
            return True
    return False


def _is_in_evaluation(loop: Loop, act: Done[SeedAct], *, own: bool) -> bool:
    """Whether the function that seeds switches gradients off.

    For a generator, also whether they were switched off between the step before and the backward
    after it: these are samples to look at.
    """
    if own:
        begins = sorted(loop.trace.table(GraphTask)["begin"].tolist())
        steps = sorted(step.t for each in loop.in_use for step in each.steps)
        place, last = bisect_right(begins, act.t), bisect_right(steps, act.t)
        until = begins[place] if place < len(begins) else act.t
        since = steps[last - 1] if last else -1
        if any(since < each.t < until for each in loop.acts.of(GradOffAct)):
            return True
    frames = loop.trace.frames(act.stack)[:1]
    off = [loop.trace.frames(each.stack)[:1] for each in loop.acts.of(GradOffAct)]
    return any(
        (one.file, one.function) == (frame.file, frame.function) and frame.function != "<module>"
        for frame in frames
        for several in off
        for one in several
    )


@rule("GS918", "weights-reset", reads=("act",))
def weights_reset(trace: Trace) -> Iterator[Found]:
    """Weights are initialized repeatedly while one optimizer trains them: training starts over.

    It is a note where only some of them are reset, which may be intended.

    Bad:
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            for each in model.parameters():
                torch.nn.init.normal_(each)
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()

    Good:
        model = torch.nn.Linear(2, 1)
        for each in model.parameters():
            torch.nn.init.normal_(each)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 2)).pow(2).mean().backward()
            optimizer.step()
    """
    loop = trace.once(Loop)
    for optimizer in loop.in_use:
        steps = [step.t for step in optimizer.steps]
        filled: dict[int, list[Done[FilledAct]]] = defaultdict(list)  # by number of steps before
        for act in loop.acts.of(FilledAct):
            before = bisect_right(steps, act.t)
            if 0 < before < len(steps) and not set(optimizer.tensors).isdisjoint(act.tensors):
                filled[before].append(act)
        if len(filled) >= SEVERAL:
            yield _reset(trace, loop, optimizer, list(filled.values()))


SEVERAL = 2
"""One reset may be the start of a second training with the first one's optimizer."""


def _reset(
    trace: Trace, loop: Loop, optimizer: Optimizer, times: list[list[Done[FilledAct]]]
) -> Found:
    acts = times[0]
    several = [loop.acts.sites(act) for act in acts]
    common = next((site for site in several[0] if all(site in each for each in several)), None)
    filled, site = several[0][0], common or several[0][0]
    tensors = {tensor for act in acts for tensor in act.tensors} & set(optimizer.tensors)
    inner = f", by {acts[0].facts.by}{at(filled)}," if filled != site else ""
    return Found(
        message=f"{trace.once(Training).named(tensors)} of {optimizer.type} are initialized again"
        f"{at(site)}{inner} {len(times)} times after steps had trained them",
        site=site,
        evidence=(Evidence("act", acts[0].id), Evidence("act", optimizer.steps[0].id)),
        why=f"{optimizer.type} made {len(optimizer.steps)} steps, and what earlier ones had "
        "learned was overwritten; its averages and momentum belong to the old weights",
        fix=f"do it once, before the loop: {line(site, 'model.apply(init)')}",
        certainty=Certainty.SUSPECTED,
        severity=None if 2 * len(tensors) >= len(optimizer.tensors) else Severity.NOTE,
    )
