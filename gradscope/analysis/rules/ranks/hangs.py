"""Rules about ranks that wait for each other. They read the merged trace of several ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at, own_site, site_of_row
from gradscope.analysis.ranks.collectives import MAKES, GroupCalls, RankCall, grouped_calls
from gradscope.analysis.ranks.hangs import MissedCollective, crossed, missed
from gradscope.analysis.ranks.training.parting import last_seen, left_at, parted_at
from gradscope.analysis.ranks.training.stopped import StoppedRanks, stopped
from gradscope.analysis.ranks.whose import OK, endings, listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, GraphTask, Span
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
FIX_BATCHES = (
    "give all ranks the same number of batches (DistributedSampler with drop_last=True), or make "
    "the condition that ends the loop the same on all ranks"
)
FIX_EPOCHS = (
    "make the condition that ends the loop the same on all ranks: compute it from a number that "
    "they have in common, as after all_reduce"
)
FIX_MISSED = (
    "make all ranks of the group call it, the same number of times: do not return, raise or skip a "
    "batch on some ranks only"
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
            why=_with_common(trace, group, WHY_DIFFER)
            + _parted(parted_at(trace, first.stack, calls[0].stack)),
            fix=FIX_DIFFER,
        )
    for pair in trace.once(crossed):
        if trace.once(stopped) and any(each.group.reduces for each in pair):
            continue  # fewer-batches names the reason
        waits = [(call, each.group) for each in pair for call in each.waits]
        (first, of), (last, _) = waits[0], waits[-1]
        yield Found(
            message=f"Ranks of group {of.described} wait in different collectives: "
            f"{'; '.join(_waiting(trace, each) for each in pair)}",
            site=own_site(trace, first.stack),
            evidence=tuple(Evidence(Span.TABLE, call.span) for call, _ in waits),
            why=WHY_DIFFER + _parted(parted_at(trace, first.stack, last.stack)),
            fix=FIX_DIFFER,
        )


@rule(
    "GS002", "collective-missed", Severity.ERROR, reads=("collective",), steps="first", across=True
)
def collective_missed(trace: Trace) -> Iterator[Found]:
    """A rank never called a collective in which the other ranks of its group waited.

    A collective ends when all ranks of its group have called it. All ranks of a program call
    `new_group` in the same order, too. If one of them has ended, raised
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
    reported = [each.group for pair in trace.once(crossed) for each in pair]
    for each in trace.once(missed):
        group, missing, waits = each.group, each.missing, each.waits
        known = any(group is other for other in reported)
        if known or (group.reduces and trace.once(stopped)):
            continue
        first = waits[0]
        number = group.calls[first.rank].index(first) + 1
        site = own_site(trace, first.stack)
        yield Found(
            message=f"{_never_called(missing, ended)} {_named(first, group)} "
            f"({_counted(number, group)}), in which {listed([call.rank for call in waits])} "
            f"waited{at(site)}",
            site=site,
            evidence=tuple(Evidence(Span.TABLE, call.span) for call in waits),
            why=_with_common(trace, group, "; ".join(_how_ended(missing, ended)))
            + _parted(_left(trace, first.stack, missing[0], ended)),
            fix=FIX_MISSED,
            certainty=Certainty.INFERRED if trace.truncated else Certainty.CERTAIN,
        )


@rule(
    "GS006", "fewer-batches", Severity.ERROR, reads=("replicated", "accumulate"), steps="each",
    across=True,
)  # fmt: skip
def fewer_batches(trace: Trace) -> Iterator[Found]:
    """A rank of DistributedDataParallel had fewer batches, and the others waited for its gradients.

    Each backward of a rank waits until all ranks have run theirs, and with buffers each forward
    waits, too. A rank that leaves the loop earlier is missed: the others wait until a timeout, or
    until its process ends.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3 if dist.get_rank() == 0 else 2):
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
        with model.join():
            for _ in range(3 if dist.get_rank() == 0 else 2):
                optimizer.zero_grad()
                model(torch.randn(8, 4)).square().mean().backward()
                optimizer.step()
        dist.destroy_process_group()
    """
    for each in trace.once(stopped):
        waited = site_of_row(trace, GraphTask, each.task)
        number = each.many + each.inside
        when = f"in backward {number}" if each.inside else f"after backward {number}"
        gone = "ended without an error"
        if each.then:
            gone = f"called {each.then.name}{at(own_site(trace, each.then.stack))}"
        yield Found(
            message=f"{listed(each.ranks).capitalize()} ran only {each.backwards} backwards, and "
            f"{listed(each.waiting)} waited for gradients {when}{at(waited)}",
            site=each.exit.branch if each.exit else each.loop or waited,
            evidence=(Evidence(GraphTask.TABLE, each.task),),
            why="DistributedDataParallel exchanges data with all ranks in each step, and then "
            f"{listed(each.ranks)} {gone}{_left_out(each)}",
            fix=FIX_EPOCHS if each.between_passes else FIX_BATCHES,
            certainty=Certainty.INFERRED,
        )


def _left(trace: Trace, here: int, rank: int, ended: Mapping[int, str]) -> Site | None:
    """Where a rank may have parted from one that waits at a stack."""
    there = last_seen(trace, rank)[1]
    left = left_at(trace, here, there) if ended[rank] == OK else None
    return left or parted_at(trace, here, there)


def _left_out(each: StoppedRanks) -> str:
    """As in "; the branch at train.py:14, left at train.py:16, may have left out a batch"."""
    passes = f", while {listed(each.waiting)} began another pass over the batches"
    before, what = (passes, "ended the loop") if each.between_passes else ("", "left out a batch")
    if each.exit is None:
        return before
    branch, leaves = each.exit.branch, each.exit.leaves
    where = f", left{at(leaves)}," if leaves.line != branch.line else ""
    return f"{before}; the branch{at(branch)}{where} may have {what}"


def _named(call: RankCall, group: GroupCalls) -> str:
    """The name of a call; of one in a backward, whose it is."""
    bucket = "" if call.bucket == NONE else f" of bucket {call.bucket}"
    bucket += f" of {listed(call.makes)}" if call.makes else ""
    return f"{call.name}{bucket}" + " of DistributedDataParallel" * group.reduces


def _counted(number: int, group: GroupCalls) -> str:
    """As in "call 3 of group default_pg"."""
    return f"call {number} of group {group.described}" + " that makes groups" * (
        group.kind == MAKES
    )


def _waiting(trace: Trace, each: MissedCollective) -> str:
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


def _never_called(missing: Sequence[int], ended: Mapping[int, str]) -> str:
    """As in "Rank 1 never called": a trace that is cut off does not say what came after it."""
    ranks = listed(missing).capitalize()
    known = all(ended[rank] for rank in missing)
    return f"{ranks} never called" if known else f"{ranks}, whose trace is cut off, has no call of"


def _parted(where: Site | None) -> str:
    return "" if where is None else f"; ranks may have parted{at(where)}"


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
