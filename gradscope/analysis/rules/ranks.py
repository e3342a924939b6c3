"""Rules about ranks that train together. They read the merged trace of several ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at, own_site, site_of_row
from gradscope.analysis.ranks.collectives import GroupCalls, RankCall, grouped_calls
from gradscope.analysis.ranks.hangs import OK, Missed, crossed, missed
from gradscope.analysis.ranks.replicas import Drift, drifts, same_losses, written_on_some
from gradscope.analysis.ranks.whose import endings, listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Op, Span
from gradscope.trace.trace import Trace

LONGEST = 120
"""Number of characters of an error that are shown."""

WHY_DIFFER = (
    "ranks of a group must call the same collectives in the same order; others exchange the wrong "
    "bytes, fail, or wait until a timeout"
)
FIX_DIFFER = (
    "call the same collective on all ranks of the group: move it out of the branch, or make the "
    "condition the same on all ranks"
)
FIX_MISSED = (
    "make all ranks of the group call it, the same number of times: do not return, raise or skip a "
    "batch on some ranks only"
)
WHY_GRADIENT = (
    "parameters were equal until then, and each rank used a gradient of its own: the model was not "
    "called through DistributedDataParallel (or in no_sync()), or the gradient was changed after "
    "the backward, for example by clipping to another norm"
)
FIX_GRADIENT = "call the wrapped model, and change gradients in the same way on all ranks"
WHY_AT_START = (
    "DistributedDataParallel made them equal when it was created; they were changed after that, "
    "before the first step"
)
WHY_WRITTEN = (
    "gradients and learning rates of the measured steps before were equal: the parameter was "
    "written on some ranks only, or the optimizers differ"
)
FIX_WRITTEN = (
    "write parameters, and set learning rates, on all ranks alike; to see each step, record with "
    "--level values"
)


@rule(
    "GS001", "collectives-differ", Severity.ERROR, reads=("collective",), steps="first", across=True
)
def collectives_differ(trace: Trace) -> Iterator[Found]:
    """Ranks of a group called different collectives, or passed tensors that do not fit.

    The first call of each rank in a group belongs together, the second one, and so on. This rule
    names the first calls that do not fit, and their lines. What follows them is not compared.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        seen = torch.ones(1)
        if dist.get_rank() == 0:
            dist.all_reduce(seen)
        else:
            dist.broadcast(seen, 0)
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        seen = torch.ones(1)
        dist.all_reduce(seen)
        dist.broadcast(seen, 0)
        dist.destroy_process_group()
    """
    for group in trace.once(grouped_calls):
        calls = [call for call in group.parted.values() if call is not None]
        first = next((call for call in calls if not call.fits(calls[0])), None)
        if first is None:
            continue
        number = group.calls[first.rank].index(first) + 1
        sides = [
            f"{listed([call.rank for call in side])} called {words}"
            for words, side in _sides(trace, calls)
        ]
        yield Found(
            message=f"Call {number} of group {group.described} differs: {'; '.join(sides)}",
            site=own_site(trace, first.stack),
            evidence=tuple(Evidence(Span.TABLE, call.span) for call in calls),
            why=_with_common(trace, group, WHY_DIFFER),
            fix=FIX_DIFFER,
        )
    for pair in trace.once(crossed):
        waits = [(call, each.group) for each in pair for call in each.waits]
        first, of = min(waits, key=lambda each: each[0].rank)
        yield Found(
            message=f"Ranks of group {of.described} wait in different collectives: "
            f"{'; '.join(_waiting(trace, each) for each in pair)}",
            site=own_site(trace, first.stack),
            evidence=tuple(Evidence(Span.TABLE, call.span) for call, _ in waits),
            why=WHY_DIFFER,
            fix=FIX_DIFFER,
        )


@rule(
    "GS002", "collective-missed", Severity.ERROR, reads=("collective",), steps="first", across=True
)
def collective_missed(trace: Trace) -> Iterator[Found]:
    """A rank never called a collective in which the other ranks of its group waited.

    A collective ends when all ranks of its group have called it. If one of them has ended, raised
    an exception or taken another branch, the others wait until a timeout, or until they are killed.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        batches = 3 if dist.get_rank() == 0 else 2
        for _ in range(batches):
            dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        for _ in range(3):
            dist.all_reduce(torch.ones(1))
        dist.destroy_process_group()
    """
    ended = endings(trace)
    reported = {id(each) for pair in trace.once(crossed) for each in pair}
    for each in trace.once(missed):
        if id(each) in reported:
            continue
        group, missing, waits = each.group, each.missing, each.waits
        first = waits[0]
        number = group.calls[first.rank].index(first) + 1
        site = own_site(trace, first.stack)
        yield Found(
            message=f"{listed(missing).capitalize()} never called {_named(first, group)} (call "
            f"{number} of group {group.described}), in which "
            f"{listed([call.rank for call in waits])} waited{at(site)}",
            site=site,
            evidence=tuple(Evidence(Span.TABLE, call.span) for call in waits),
            why=_with_common(trace, group, "; ".join(_how_ended(missing, ended))),
            fix=FIX_MISSED,
            certainty=Certainty.INFERRED if trace.truncated else Certainty.CERTAIN,
        )


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
    for drift in trace.once(drifts):
        odd, values = _odd_one(drift.values), drift.values
        step = drift.steps[odd]
        of = f"the gradient of {drift.name}" if drift.what == "gradient" else drift.name
        by_rank = ", ".join(
            f"{value:.4g} on {listed([rank for rank in values if values[rank] == value])}"
            for value in dict.fromkeys(values.values())
        )
        why, site = _why_drift(drift), own_site(trace, step.stack)
        if written := written_on_some(trace, drift):
            rank, stack = written
            site = own_site(trace, stack)
            why = f"only some ranks wrote it before, rank {rank} for example{at(site)}"
        yield Found(
            message=f"Replicas differ from step {drift.number} on: the norm of {of} is {by_rank}"
            f"{at(site)}",
            site=site,
            evidence=tuple(Evidence("act", each.id) for each in drift.steps.values()),
            why=why,
            fix=FIX_GRADIENT if drift.what == "gradient" else FIX_WRITTEN,
        )


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
    for same in trace.once(same_losses):
        site = site_of_row(trace, Op, same.op)
        yield Found(
            message=f"{listed(same.ranks).capitalize()} computed the same losses in all "
            f"{same.many} backwards{at(site)}",
            site=site,
            evidence=(Evidence(Op.TABLE, same.op),),
            why="replicas are equal, so their batches were: the ranks repeat each other's work",
            fix="give each rank its own part of the data with DistributedSampler, or another seed",
            certainty=Certainty.INFERRED,
        )


def _odd_one(values: Mapping[int, float]) -> int:
    """The rank whose value the fewest ranks have; of several, the last one."""
    many = Counter(values.values())
    return max(values, key=lambda rank: (-many[values[rank]], rank))


def _rates(drift: Drift) -> str:
    """The learning rates of the step before, if ranks had different ones."""
    if len({step.facts.lr for step in drift.last.values()}) < 2:
        return ""
    rates = (
        f"{', '.join(f'{rate:g}' for rate in step.facts.lr)} on rank {rank}"
        for rank, step in drift.last.items()
    )
    return ", ".join(rates)


def _why_drift(drift: Drift) -> str:
    if drift.what == "gradient":
        return WHY_GRADIENT
    if rates := _rates(drift):
        return f"gradients were equal, and the step before had different learning rates: {rates}"
    return WHY_WRITTEN if drift.number else WHY_AT_START


def _named(call: RankCall, group: GroupCalls) -> str:
    """The name of a call; of one in a backward, whose it is."""
    bucket = "" if call.bucket == NONE else f" of bucket {call.bucket}"
    return f"{call.name}{bucket}" + " of DistributedDataParallel" * group.reduces


def _waiting(trace: Trace, each: Missed) -> str:
    """As in "rank 1 waits in barrier at train.py:20"."""
    ranks, first = [call.rank for call in each.waits], each.waits[0]
    waits = "waits" if len(ranks) == 1 else "wait"
    return (
        f"{listed(ranks)} {waits} in {_named(first, each.group)}{at(own_site(trace, first.stack))}"
    )


def _sides(trace: Trace, calls: Sequence[RankCall]) -> list[tuple[str, list[RankCall]]]:
    """What was called, with the line, and by which calls."""

    def words(call: RankCall) -> str:
        sizes = f"[{', '.join(map(str, call.shape))}]" if call.shape else "scalar"
        passed = f" of {sizes} {call.dtype}" if call.dtype else ""
        return f"{call.name}{passed}{at(own_site(trace, call.stack))}"

    return [(text, [*side]) for text, side in groupby(sorted(calls, key=words), key=words)]


def _with_common(trace: Trace, group: GroupCalls, why: str) -> str:
    """The reason, with the last call that all ranks have made."""
    together = group.together
    if not together:
        return f"{why}; no call of this group came before it"
    last = together[-1][0]
    site: Site = own_site(trace, last.stack)
    return f"{why}; the last call that all ranks made was {last.name}{at(site)}"


def _how_ended(ranks: Sequence[int], ended: Mapping[int, str]) -> list[str]:
    by_ending: dict[str, list[int]] = {}
    for rank in ranks:
        by_ending.setdefault(ended[rank], []).append(rank)
    return [f"{listed(those)} {_ending(ending)}" for ending, those in by_ending.items()]


def _ending(ending: str) -> str:
    if ending == OK:
        return "ended before, without an error"
    if not ending:
        return "has a trace that does not say how it ended"
    shown = ending if len(ending) <= LONGEST else f"{ending[:LONGEST]}…"
    return f"ended with: {shown}"
