"""Rules about modes: eval left on, training mode in evaluation, gradients left off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import as_written
from gradscope.analysis.program.acts import Done, stacks_of
from gradscope.analysis.program.loop import Beat, Loop, left_over
from gradscope.analysis.program.modes import Modes
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    CheckpointAct,
    GradOffAct,
    GraphTask,
    Module,
    Node,
    RanAct,
    TrainAct,
)
from gradscope.trace.trace import Trace


@rule("GS511", "eval-left-on", reads=("accumulate", "act"))
def eval_left_on(trace: Trace) -> Iterator[Found]:
    """Training goes on in eval mode: dropout is off, and batch norm uses its running statistics.

    `eval()` holds until `train()` is called. Only models with such modules are checked, and only
    where the whole trained model was set to eval: for a part it may be intended.

    Bad:
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            model.eval()

    Good:
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            model.eval()
    """
    loop = trace.once(Loop)
    modes = trace.once(Modes)
    by_line: dict[str, list[tuple[Done[TrainAct], int]]] = defaultdict(list)
    for act in modes.switches():
        if not act.facts.to:
            task = _trained_under(loop, modes, act)
            if task != NONE:
                by_line[loop.acts.place(act)].append((act, task))
    for several in by_line.values():
        act, task = several[0]
        yield _left_on(loop, modes, act, task)


def _trained_under(loop: Loop, modes: Modes, act: Done[TrainAct]) -> int:
    """A backward with a step after it, of a forward that ran while this eval() held; or NONE."""
    parts = modes.inside(act.module)
    named = modes.modules.get(act.module)
    if named is not None and not modes.inside(act.module) - {act.module} and act.module != NONE:
        return NONE  # one layer: on purpose
    if act.module == NONE and len(modes.outermost) > 1:
        return NONE  # only methods of a model are called: any may be in it
    such = {
        each
        for each in parts & modes.two_ways
        if (each, True, False) in modes.ran or (each, False, False) in modes.ran
    }
    back = _back(modes, act, parts)
    end = back.t if back else np.iinfo(np.int64).max
    if not any((each, True, False) in modes.ran for each in such):
        return NONE
    used = _used(loop)
    tasks, nodes = loop.trace.table(GraphTask), loop.trace.table(Node)
    own = modes.parameters(parts)
    of_root = modes.parameters(modes.inside(modes.root(act.module))) if act.module != NONE else own
    begins = tasks["begin"]
    held = np.flatnonzero((begins > act.t) & (begins < end))
    for row in tasks.take(held[:64]):
        roots = [nodes.row(root).t for root in row.roots if nodes.has(root)]
        if not roots or min(roots) < act.t or row.id not in used:
            continue
        table = loop.trace.table(Accumulate)
        filled = set(table["tensor"][table["task"] == row.id].tolist())
        if filled & own and not (filled & of_root) - own:
            return row.id
    return NONE


def _used(loop: Loop) -> frozenset[int]:
    """Backwards whose gradients an optimizer used in a step."""
    found: set[int] = set()
    for optimizer in loop.in_use:
        for moments in loop.rounds(optimizer):
            if moments and moments[-1].beat is Beat.STEPPED:
                found.update(each.id for each in left_over(moments))
    return frozenset(found)


def _back(modes: Modes, act: Done[TrainAct], parts: frozenset[int]) -> Done[TrainAct] | None:
    """The next train() of this module, of one around it, or of a mode-dependent part of it."""
    for other in modes.switches():
        if other.t > act.t and other.facts.to:
            around = act.module in modes.inside(other.module) or NONE in (other.module, act.module)
            part = other.module in parts and modes.inside(other.module) & modes.two_ways
            if around or part:
                return other
    return None


def _left_on(loop: Loop, modes: Modes, act: Done[TrainAct], task: int) -> Found:
    site, outer, (_, stack) = loop.acts.site(act), loop.acts.called(act), loop.tasks[task]
    such = sorted(
        each for each in modes.inside(act.module) & modes.two_ways
        if (each, True, False) in modes.ran
    )  # fmt: skip
    trained = any(
        (found := modes.ran.get((each, True, True))) is not None and found.t < act.t
        for each in such
    )
    model = line(site, "model.eval()").strip("`").partition(".eval()")[0]
    name = model if model.replace(".", "").isidentifier() else "model"
    back = _back(modes, act, modes.inside(act.module))
    ends = f"called again only{at(loop.acts.site(back))}" if back else "not called again"
    return Found(
        message=f"eval mode is left on: eval(){at(site)}{outer} is still in effect when training "
        f"continues with the backward{at(site_of(loop.trace, stack))}; train() is {ends}",
        site=site,
        evidence=(
            Evidence("act", act.id),
            Evidence("graph_task", task),
            *([Evidence("act", back.id)] if back else []),
        ),
        why=f"{_named(modes, such)} ran in eval mode where gradients were recorded"
        f"{', and in training mode before that' if trained else ''}: dropout drops nothing, and "
        "batch norm uses running statistics instead of the batch's",
        fix=f"call `{name}.train()` before training continues",
        certainty=Certainty.INFERRED if trained else Certainty.SUSPECTED,
    )


def _named(modes: Modes, ids: list[int]) -> str:
    """As in "BatchNorm1d (1) and 2 more"."""
    names = module_names(modes.trace)
    first = ids[0]
    path = f" ({names[first]})" if names.get(first) else ""
    more = f" and {len(ids) - 1} more" if len(ids) > 1 else ""
    return f"{modes.modules[first].type}{path}{more}"


@rule("GS512", "training-mode-in-evaluation", reads=("act",))
def training_mode_in_evaluation(trace: Trace) -> Iterator[Found]:
    """Dropout or batch norm of a trained model ran in training mode under no_grad.

    Dropout makes an evaluation without `eval()` noisy. Batch norm uses the statistics of the
    evaluated batches and changes its running statistics. Calls before the first step do not count.

    Bad:
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                model(torch.rand(3, 2))

    Good:
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            model.train()
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                model(torch.rand(3, 2))
    """
    loop = trace.once(Loop)
    modes = trace.once(Modes)
    by_line: dict[str, list[int]] = defaultdict(list)
    for module in as_written(trace.table(Module), modes.two_ways):
        act = modes.ran.get((module, False, True))
        if act is not None and _is_evaluation(loop, modes, module, act):
            outermost = modes.ran[modes.root(module), False, _mode_of(modes, modes.root(module))]
            by_line[loop.acts.place(outermost)].append(module)
    for several in by_line.values():
        yield _in_training(loop, modes, several)


def _mode_of(modes: Modes, root: int) -> bool:
    """Whether the module ran in training mode when it ran without gradients."""
    return (root, False, True) in modes.ran


def _is_evaluation(loop: Loop, modes: Modes, module: int, act: Done[RanAct]) -> bool:
    """Whether a trained module ran like this after the first step without sign of intention."""
    root = modes.root(module)
    around = modes.ran.get((root, False, _mode_of(modes, root)))
    if around is None or (module, True, True) not in modes.ran:
        return False
    own = modes.parameters(modes.inside(root))
    steps = [step.t for each in loop.in_use if own & set(each.tensors) for step in each.steps]
    if not steps or min(steps) > act.t or "update_bn" in loop.acts.site(around).text:
        return False
    checkpoints = [
        each
        for each in loop.acts.of(CheckpointAct)
        if each.facts.reentrant and each.stack == around.stack
    ]
    since = max([step for step in steps if step < act.t])
    on_purpose = any(
        each.facts.to and (each.module == module != root or since < each.t < act.t)
        for each in modes.switches()
    )
    return not checkpoints and not on_purpose


def _in_training(loop: Loop, modes: Modes, found: list[int]) -> Found:
    root = modes.root(found[0])
    act = modes.ran[root, False, _mode_of(modes, root)]
    site = loop.acts.site(act)
    outer = _where_grad_is_off(loop, act)
    called = f", called{at(outer)}," if outer.place and outer.place != site.place else ""
    part = [
        each
        for each in modes.switches()
        if not each.facts.to and each.t < act.t and each.step == act.step
    ]
    only = f"; eval(){at(loop.acts.site(part[-1]))} covers another part only" if part else ""
    return Found(
        message=f"{_named(modes, found)} ran in training mode under no_grad{at(site)}{called} "
        f"in the evaluation of a model that is trained: eval() is missing{only}",
        site=site,
        evidence=tuple(
            Evidence("act", modes.ran[each, False, True].id) for each in (root, *found[:3])
            if (each, False, True) in modes.ran
        ),
        why="dropout makes the results noisy, and batch norm uses the statistics of this batch "
        "and changes its running ones",
        fix="call `eval()` on the whole model before, and `train()` before training continues",
        certainty=Certainty.INFERRED,
    )  # fmt: skip


def _where_grad_is_off(loop: Loop, act: Done[RanAct]) -> Site:
    """The line around this call in the function that switched gradients off."""
    off = [each for each in loop.acts.of(GradOffAct) if each.t <= act.t]
    frames = [frame for each in off[-1:] for frame in loop.trace.frames(each.stack)[:1]]
    stacks = stacks_of(loop.trace, act.stack)
    for each, frame in zip(stacks, loop.trace.frames(act.stack), strict=False):
        if any((frame.file, frame.function) == (one.file, one.function) for one in frames):
            return site_of(loop.trace, each)
    return Site()
