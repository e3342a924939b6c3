"""Rules about replicas of DistributedDataParallel. They read the merged trace of several ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import at, own_site, site_of_row
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.replicas import (
    Drift,
    drifts,
    loaded_on_some,
    same_losses,
    written_on_all,
    written_on_some,
)
from gradscope.analysis.ranks.training.data.batches import data_of
from gradscope.analysis.ranks.training.data.drawn import same_draws, same_noise
from gradscope.analysis.ranks.training.data.loaders import loaded_apart, undivided_at
from gradscope.analysis.ranks.training.exchanged.waiting import may_hold
from gradscope.analysis.ranks.training.gradients.changed import (
    averaged_too_early,
    changed_at,
)
from gradscope.analysis.ranks.training.parting import parted_at
from gradscope.analysis.ranks.whose import RankOf, listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, CameInAct, Op, StepAct
from gradscope.trace.trace import Trace

WHY_GRADIENT = (
    "parameters were equal until then, and each rank used a gradient of its own: the model was not "
    "called through DistributedDataParallel (or in no_sync()), or the gradient was changed after "
    "the backward, for example by clipping to another norm"
)
FIX_GRADIENT = "average it, too (DDP: call the wrapped model), and change it alike on all ranks"
FIX_EARLY = "leave no_sync() for the last backward before each step, not for another one"
WHY_BY_HAND = (
    "parameters were equal until then, and the program averages gradients itself: those of other "
    "parameters were equal, and this one was left out, or changed after that"
)
WHY_IN_PART = (
    "parameters were equal until then, and the program averages gradients itself: all were equal "
    "in {steps} of {of} measured steps, and in this one they were not averaged, or changed after "
    "that"
)
WHY_GROUPS = (
    "gradients were averaged within groups of ranks ({groups}) in all {of} measured steps, and no "
    "collective between them passed tensors across groups: each group trains another model"
)
FIX_GROUPS = "average over all ranks, too: first within groups, and then across them"
WHY_UPDATE = (
    "parameters, gradients and learning rates were equal: the optimizers differ in other settings, "
    "in their state (momentum that was loaded on some ranks only), or in random numbers"
)
WHY_AT_START = (
    "DistributedDataParallel made them equal when it was created; they were changed after that, "
    "before the first step"
)
WHY_WRITTEN = (
    "gradients and learning rates of the measured steps before were equal: the parameter was "
    "written on some ranks only, or the optimizers differ"
)
FIX_WRITTEN = "write parameters, load states and set learning rates on all ranks alike"
EACH_STEP = "; to see each step, record with --level values"


@rule(
    "GS003",
    "replicas-differ",
    reads=("replicated", "act"),
    steps="each",
    fully="values",
    across=True,
)
def replicas_differ(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel have different values of the same parameter.

    DistributedDataParallel copies the parameters of the first rank to all ranks when it is created,
    and averages gradients in each backward. So parameters stay equal as long as all ranks take the
    same steps. It does not check this: after a difference each rank trains another model. Norms are
    compared, at steps that were measured. Ranks that agree again later are not reported.

    A program without DistributedDataParallel is checked if its parameters are equal at first, and
    some of its gradients are: then it averages them itself. So are gradients that are averaged
    within groups of ranks, and never across them.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        net = torch.nn.Linear(4, 2)
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for _ in range(3):
            optimizer.zero_grad()
            net(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        net = torch.nn.Linear(4, 2)
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    special = {"step": _skipped, "round": _skipped, "outside": _outside}
    for drift in trace.once(drifts):
        if may_hold(trace, drift.tensors.values()):
            continue  # GS014: what a step used was still on its way
        yield special.get(drift.what, _numbers_differ)(trace, drift)


@rule(
    "GS004", "same-batches", needs="values", reads=("replicated", "value"), steps="each",
    across=True,
)  # fmt: skip
def same_batches(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel computed the same losses: they had the same batches.

    Replicas have the same parameters, so equal losses in all backwards mean equal data. Such ranks
    repeat each other's work, and the average of their gradients is the gradient of one batch.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    known = [{*each.ranks} for each in trace.once(loaded_apart) if each.why == "rank"]  # GS021
    for same in trace.once(same_losses):
        if {*same.ranks} in known:
            continue
        loss = site_of_row(trace, Op, same.op)
        loader = undivided_at(trace, same.ranks[0])
        by = f": the loader{at(loader[0])} gives them the same batches" if loader else ""
        yield Found(
            message=f"{listed(same.ranks).capitalize()} computed the same losses in all "
            f"{same.many} backwards{at(loss)}{by}",
            site=loader[0] if loader else data_of(trace, same.ranks[0]) or loss,
            evidence=(Evidence(Op.TABLE, same.op),),
            why="replicas are equal, so their batches were: the ranks repeat each other's work",
            fix="give each rank its own part of the data with DistributedSampler, or another seed",
            certainty=Certainty.INFERRED,
        )


@rule(
    "GS009", "same-random-numbers", Severity.NOTE, needs="values",
    reads=("replicated", "act"), steps="each", across=True,
)  # fmt: skip
def same_random_numbers(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel drew the same random numbers in each step.

    The generator of PyTorch had the same state on these ranks at each step, and drew numbers in
    most of them: for the masks of dropout, noise, or the augmentation of data. So ranks use the
    same masks for different data, and the average over ranks is less random than it could be. It is
    a warning if `randn_like` returned the same noise for the samples of other data. For
    equal initial values no seed is needed: DistributedDataParallel copies those of the first rank.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = torch.randn(2, 4, 8, 4)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5))
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x in data[dist.get_rank()]:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = torch.randn(2, 4, 8, 4)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5))
        model = DistributedDataParallel(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for x in data[dist.get_rank()]:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    known = [{*same.ranks} for same in trace.once(same_losses)]  # GS004
    for same in trace.once(same_draws):
        if any({*same.ranks} <= ranks for ranks in known):
            continue
        site, act = same.site, same.seeded or same.first
        by = f" after the generator was seeded{at(site)}" if same.seeded else ""
        noise = [each for each in trace.once(same_noise) if {*each.ranks} <= {*same.ranks}]
        line = f", by {noise[0].by}{at(noise[0].site)}, for other data" if noise else ""
        yield Found(
            message=f"{listed(same.ranks).capitalize()} drew the same "
            f"{'noise' if noise else 'random numbers'} in each of {same.steps} steps{line}{by}",
            severity=Severity.WARNING if noise else None,
            site=site,
            evidence=(Evidence("act", act.id),),
            why="their generators had the same states at each step: they used the same masks of "
            "dropout, or the same noise, for different data",
            fix="seed each rank differently before training: "
            "`torch.manual_seed(seed + dist.get_rank())`",
        )


def _odd_one(values: Mapping[int, float]) -> int:
    """The rank whose value the fewest ranks have; of several, the last one."""
    many = Counter(values.values())
    return max(values, key=lambda rank: (-many[values[rank]], rank))


def _numbers_differ(trace: Trace, drift: Drift) -> Found:
    """The norms of a parameter, of its gradient or of its update differ."""
    odd, values = _odd_one(drift.values), drift.values
    step = drift.steps[odd]
    number = step_numbers(trace).get(step.step, drift.number)  # an optimizer may be a later one
    of = drift.name if drift.what == "parameter" else f"the {drift.what} of {drift.name}"
    by_rank = ", ".join(
        f"{value:.4g} on {listed([rank for rank in values if values[rank] == value])}"
        for value in dict.fromkeys(values.values())
    )
    why, site = _why_drift(drift), own_site(trace, step.stack)
    fix = FIX_WRITTEN + EACH_STEP * (trace.meta.get("level") not in ("values", "full"))
    if drift.what == "gradient":
        site = changed_at(trace, drift, odd) or site
        fix = FIX_GROUPS if drift.averaged and len(drift.averaged.groups) > 1 else FIX_GRADIENT
        if early := averaged_too_early(trace, drift, odd):
            site, why, fix = early.site, early.why, FIX_EARLY
    elif written := written_on_some(trace, drift):
        rank, stack = written
        site = own_site(trace, stack)
        why = f"only some ranks wrote it before, rank {rank} for example{at(site)}"
    elif everywhere := written_on_all(trace, drift):
        name, stack = everywhere
        site = own_site(trace, stack)
        why = f"all ranks wrote it before, with {name}{at(site)}: each has its own numbers"
    elif drift.what == "update" and (loaded := loaded_on_some(trace)):
        rank, site = loaded
        why = (
            "parameters, gradients and learning rates were equal, and only some ranks loaded a "
            f"state, rank {rank} for example{at(site)}: their optimizers probably have other states"
        )
    differs = f"the norm of {of} is {by_rank}"
    if len({*values.values()}) == 1:
        differs = f"the bits of {of} differ, while its norm is {by_rank}"
    return Found(
        message=f"Replicas differ from step {number} on: {differs}{at(site)}",
        site=site,
        evidence=tuple(Evidence("act", each.id) for each in drift.steps.values()),
        why=why,
        fix=fix,
    )


def _skipped(trace: Trace, drift: Drift) -> Found:
    """A rank took no step where others took one."""
    numbers = trace.once(RankOf).numbers
    left_out = [rank for rank in numbers if rank not in drift.steps]
    step = next(iter(drift.steps.values()))
    site = own_site(trace, step.stack)
    where = parted_at(trace, step.stack, NONE)
    others = listed([*drift.steps])
    took = f"after backward {drift.number}, and {others} did"
    if drift.what == "round":
        took = f"where {others} took step {drift.number}"
    return Found(
        message=f"Replicas differ: {listed(left_out)} took no step {took}{at(site)}",
        site=site,
        evidence=tuple(Evidence("act", each.id) for each in drift.steps.values()),
        why="all ranks must take the same steps"
        + ("" if where is None else f"; ranks may have parted{at(where)}"),
        fix="decide on all ranks alike: reduce what the decision depends on over all ranks first",
    )


def _outside(trace: Trace, drift: Drift) -> Found:
    """A parameter is stepped with each rank's own gradient."""
    tensor = next(iter(drift.tensors.values()))
    part = trace.once(parts)[0].trace
    built = next(each for each in part.once(Acts).optimizers if tensor in each.tensors).built
    made, calls = own_site(trace, built.stack), part.once(Calls)
    came = [act.stack for act in part.once(Acts).of(CameInAct) if tensor in act.tensors]
    came += [calls.stack(at) for at in calls.trained_users(tensor)[:1]]
    site = own_site(trace, came[0]) if came else made
    norms = ", ".join(f"{value:.4g} on rank {rank}" for rank, value in drift.values.items())
    return Found(
        message=f"{drift.name} is stepped by the optimizer made{at(made)}, "
        f"but DistributedDataParallel does not average its gradient: its norm is {norms}{at(site)}",
        site=site,
        evidence=tuple(Evidence("act", each.id) for each in drift.steps.values()),
        why="it is in no wrapped model, or was added to one after that: each rank trains its own",
        fix="wrap the module that it is in, after it is complete; or average its gradient",
    )


def _rates(steps: Mapping[int, Done[StepAct]]) -> str:
    """The learning rates of steps, if ranks had different ones."""
    if len({step.facts.lr for step in steps.values()}) < 2:
        return ""
    rates = (
        f"{', '.join(f'{rate:g}' for rate in step.facts.lr)} on rank {rank}"
        for rank, step in steps.items()
    )
    return ", ".join(rates)


def _why_drift(drift: Drift) -> str:
    how = drift.averaged
    if how and len(how.groups) > 1:
        return WHY_GROUPS.format(groups="; ".join(map(listed, how.groups)), of=how.of)
    if drift.what == "gradient" and how and how.steps:
        return WHY_IN_PART.format(steps=how.steps, of=how.of)
    if drift.what == "gradient":
        return WHY_BY_HAND if drift.by_hand else WHY_GRADIENT
    if drift.what == "update":
        rates = _rates(drift.steps)
        return f"ranks have different learning rates: {rates}" if rates else WHY_UPDATE
    if rates := _rates(drift.last):
        return f"gradients were equal, and the step before had different learning rates: {rates}"
    return WHY_WRITTEN if drift.number else WHY_AT_START
