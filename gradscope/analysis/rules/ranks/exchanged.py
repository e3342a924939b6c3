"""Rules about what the program did with tensors of collectives. They read all ranks' traces."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.identity.sites import at, own_site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.training import Training
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.training.exchanged.held import OtherOrder, other_orders
from gradscope.analysis.ranks.training.exchanged.lone import RECEIVES, SENDS, lone_transfers
from gradscope.analysis.ranks.training.exchanged.needless import SentAgain, sent_again
from gradscope.analysis.ranks.training.exchanged.through import NotThrough, Way, not_through
from gradscope.analysis.ranks.training.exchanged.waiting import UsedTooEarly, used_too_early
from gradscope.analysis.ranks.whose import RankOf, listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Node, Span
from gradscope.trace.trace import Trace

WHY_THROUGH = {
    Way.GATHERED: "what comes back has no graph: no gradient reaches the tensor that was passed, "
    "neither on this rank nor on the others",
    Way.IN_PLACE: "the sum was written into the tensor, and its graph does not know of it: each "
    "rank divides the gradient of its own term, and averaging over ranks then divides it again",
    Way.DATA: "`.data` has no graph: no gradient reaches what the sum was made of",
}
FIX_THROUGH = {
    Way.GATHERED: "use torch.distributed.nn.functional.{name}, which has a backward, or put the "
    "own part back (`parts[rank] = own`); pass `x.detach()` if no gradient is wanted",
    Way.IN_PLACE: "reduce a copy, `x.detach().clone()`, if it is only logged; if the sum belongs "
    "to the loss, use torch.distributed.nn.functional.{name}, which has a backward",
    Way.DATA: "use torch.distributed.nn.functional.{name}, which has a backward; pass "
    "`x.detach().clone()` if no gradient is wanted",
}
KIB, MIB = 1 << 10, 1 << 20

WHY_LONE = {
    SENDS: "until it has ended, the tensor must stay as it is, or the other rank gets what was "
    "written later",
    RECEIVES: "until it has ended, the tensor has its old values, or only a part of the new ones",
}


@rule("GS013", "no-gradient-through", needs="values", reads=("passed", "used"), across=True)
def no_gradient_through(trace: Trace) -> Iterator[Found]:
    """A loss was computed from the result of a collective that has no backward.

    The functions of `torch.distributed` know nothing of autograd. A tensor with a graph was passed
    to one of them, or its memory as `.data`, and what came back went into the nodes of a backward:
    the gradient ends there. Those of `torch.distributed.nn.functional` have a backward. A sum in
    place is named if it is then divided by the number of ranks, which also average gradients.

    Nothing is reported of what is called under `no_grad` or in a custom Function, of what is
    detached, or if the own part is put back with its graph. At level `values`.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = torch.nn.Linear(4, 3)
        own = model(torch.randn(5, 4))
        parts = [torch.zeros_like(own) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, own)
        (own @ torch.cat(parts).T).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.distributed.nn.functional import all_gather
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = torch.nn.Linear(4, 3)
        own = model(torch.randn(5, 4))
        parts = all_gather(own)
        (own @ torch.cat(parts).T).square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        dist.destroy_process_group()
    """
    of_line = grouped(trace.once(not_through), lambda each: (own_site(trace, each.stack), each.way))
    steps, ranks = step_numbers(trace), trace.once(RankOf)
    for (site, way), those in of_line.items():
        first = those[0]
        on = listed(sorted({ranks.one(Span.TABLE, each.span) for each in those}))
        used = own_site(trace, first.used.stack)
        yield Found(
            message=f"{first.name}{at(site)} has no backward, and a loss was computed from its "
            f"result{at(used)} ({first.used.name}), on {on}{_since(first, steps)}",
            site=site,
            evidence=(Evidence(Span.TABLE, first.span), Evidence(Node.TABLE, first.node)),
            why=WHY_THROUGH[way],
            fix=FIX_THROUGH[way].format(name=_with_backward(first.name)),
            certainty=Certainty.INFERRED,
        )


def _since(first: NotThrough, steps: dict[int, int]) -> str:
    """As in ", from step 0 on"."""
    return f", from step {steps[first.step]} on" if first.step in steps else ""


def _with_backward(name: str) -> str:
    """The function with a backward that does the same, or nearly so."""
    return "all_gather" if name in ("all_gather_into_tensor", "all_gather_single") else name


@rule("GS014", "not-waited", reads=("handle",), across=True)
def not_waited(trace: Trace) -> Iterator[Found]:
    """The program used memory of an asynchronous collective without having waited for it.

    With `async_op=True` a collective returns a handle at once and goes on in the background. Here
    an optimizer stepped with gradients that were still being exchanged, or an operation read or
    wrote what a collective was writing: no method of the handle had been called. What it saw
    depends on chance. Operations are observed at level `values`; nothing is reported with GPUs.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(8, 4)).square().mean().backward()
        works = []
        for parameter in model.parameters():
            parameter.grad /= dist.get_world_size()
            works.append(dist.all_reduce(parameter.grad, async_op=True))
        optimizer.step()
        for work in works:
            work.wait()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(8, 4)).square().mean().backward()
        works = []
        for parameter in model.parameters():
            parameter.grad /= dist.get_world_size()
            works.append(dist.all_reduce(parameter.grad, async_op=True))
        for work in works:
            work.wait()
        optimizer.step()
        dist.destroy_process_group()
    """
    of_line = grouped(
        trace.once(used_too_early),
        lambda each: (own_site(trace, each.stack), own_site(trace, each.called), each.by),
    )
    steps = step_numbers(trace)
    for (site, called, by), those in of_line.items():
        first = those[0]
        calls = f"{first.name}{at(called)}"
        if first.many > 1:
            calls = f"{first.many} calls of {calls}"
        step = f", the first time in step {steps[first.step]}" if first.step in steps else ""
        yield Found(
            message=f"{by}{at(site)} used memory of {calls} that was not waited for, on "
            f"{listed(sorted({each.rank for each in those}))}{step}",
            site=site,
            evidence=(Evidence(Span.TABLE, first.span),),
            why=_why_early(trace, those),
            fix="call `wait()` of each handle before the memory is used",
        )


def _why_early(trace: Trace, those: list[UsedTooEarly]) -> str:
    """What is known of the collectives at that time."""
    running, many = sum(each.running for each in those), sum(each.many for each in those)
    why = "the collective writes in the background until it is complete"
    if running:
        why = f"{running} of {many} had not ended by then: they were still writing it"
    late = next((each.waited for each in those if each.waited != NONE), NONE)
    if late != NONE:
        return f"{why}; it was waited for only later{at(own_site(trace, late))}"
    return f"{why}; no method of their handles was called before"


@rule("GS032", "transfer-not-waited", reads=("source",), across=True)
def transfer_not_waited(trace: Trace) -> Iterator[Found]:
    """The program did not wait for `isend` or `irecv` before it used the tensor, or never.

    Both return at once and go on in the background. The tensor of `irecv` has its values, and that
    of `isend` may be written, only after `wait()` of the handle. A handle that is not kept is
    never waited for: the transfer may not take place, and hang the other rank. The rule reads the
    text of the program, in each block of statements of which a line ran.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        parcel = torch.full((3,), float(dist.get_rank()))
        weight = torch.ones(3, requires_grad=True)
        if dist.get_rank() == 0:
            work = dist.isend(parcel, 1)
            work.wait()
            (weight * parcel).sum().backward()
        else:
            work = dist.irecv(parcel, 0)
            (weight * parcel).sum().backward()
            work.wait()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        parcel = torch.full((3,), float(dist.get_rank()))
        weight = torch.ones(3, requires_grad=True)
        if dist.get_rank() == 0:
            work = dist.isend(parcel, 1)
            work.wait()
            (weight * parcel).sum().backward()
        else:
            work = dist.irecv(parcel, 0)
            work.wait()
            (weight * parcel).sum().backward()
        dist.destroy_process_group()
    """
    for each in trace.once(lone_transfers):
        lone, called = each.found, each.site
        if lone.used == NONE:
            site, message = called, f"The handle of {lone.name}{at(called)} is never waited for"
        else:
            site = each.file.site(lone.used)
            done = "reads" if lone.name == RECEIVES else "writes"
            message = f"{site.place} {done} {lone.buffer} before {lone.name}{at(called)} was "
            message += "waited for"
        yield Found(
            message=message,
            site=site,
            evidence=(each.evidence,),
            why="it goes on in the background: " + WHY_LONE[lone.name],
            fix="keep the handle, and call its `wait()` before the tensor is used"
            if lone.name == RECEIVES
            else "keep the handle, and call its `wait()` before the tensor is written or freed",
            certainty=Certainty.INFERRED,
        )


@rule("GS015", "order-of-collectives", reads=("collective",), steps="first", across=True)
def order_of_collectives(trace: Trace) -> Iterator[Found]:
    """Ranks passed the same tensors to a collective in different orders.

    The calls fit, so nothing fails or hangs; but in each call ranks combine different things, and
    results are wrong without an error. A dict keeps the order in which keys were added, which may
    differ between ranks; a set has an order of its own in each process. The rule knows the
    parameter whose gradient or values are passed, the key under which a dict of the calling
    function holds a tensor, and the variable of a loop over a set. Nothing is reported if ranks
    pass different tensors.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        names = ["easy", "hard"] if dist.get_rank() == 0 else ["hard", "easy"]
        totals = {name: torch.ones(2) for name in names}
        for name, total in totals.items():
            dist.all_reduce(total)
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        names = ["easy", "hard"] if dist.get_rank() == 0 else ["hard", "easy"]
        totals = {name: torch.ones(2) for name in names}
        for name, total in sorted(totals.items()):
            dist.all_reduce(total)
        dist.destroy_process_group()
    """
    for other in trace.once(other_orders):
        name = other.tensors[0].call.name
        sides = grouped(other.tensors, lambda each: each.held_as)
        passed = ", ".join(
            f"{listed([each.call.rank for each in those])} passed {held}"
            for held, those in sides.items()
        )
        yield Found(
            message=f"Call {other.number} of group {other.group.described} combines different "
            f"things: {passed} to {name}{at(other.site)}",
            site=other.site,
            evidence=tuple(Evidence(Span.TABLE, each.call.span) for each in other.tensors),
            why=f"ranks pass the same ones in different orders{_by_set(other)}; {other.many} calls "
            "of this line combine what does not belong together",
            fix="go through them in the same order on all ranks: `sorted(…)`, or "
            "`model.parameters()`",
        )


def _by_set(other: OtherOrder) -> str:
    """As in ", because of the loop over a set at train.py:30"."""
    return "" if other.loop is None else f", because of the loop over a set{at(other.loop)}"


@rule("GS016", "needless-collective", needs="values", reads=("work",), across=True)
def needless_collective(trace: Trace) -> Iterator[Found]:
    """The program sends parameters in each step, although all ranks have the same ones.

    Before each of these broadcasts, in at least three steps, the bits of the parameters were equal
    on all ranks: nothing changed by it, but time. Where gradients are averaged, replicas stay equal
    by themselves. Nothing is reported of what is sent seldom, or if ranks differed later on.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(64, 32))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 64)).square().mean().backward()
            optimizer.step()
            for parameter in model.parameters():
                dist.broadcast(parameter.data, src=0)
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(64, 32))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            model(torch.randn(8, 64)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for sent in trace.once(sent_again):
        yield _needless(trace, sent)


def _needless(trace: Trace, sent: SentAgain) -> Found:
    first = trace.once(parts)[0].trace
    names = first.once(Training).named(sent.parameters)
    return Found(
        message=f"{sent.first.name}{at(sent.site)} sent {names} in {len(sent.steps)} steps, the "
        f"first time in step {sent.steps[0]}, but {listed(sorted(sent.ranks))} had the same bits "
        "each time",
        site=sent.site,
        evidence=(Evidence(Span.TABLE, sent.first.span), *few_tensors(first, sent.parameters)),
        why=f"{sent.calls} calls sent {_size(sent.bytes)} and took {sent.ns / 1e6:.1f} ms on rank "
        f"{sent.first.rank}, and changed nothing",
        fix="leave it out: replicas that start equal and average their gradients stay equal; send "
        "parameters once, before training",
    )


def _size(many: int) -> str:
    """As in "1.5 MiB"."""
    return f"{many / MIB:.1f} MiB" if many >= MIB else f"{many / KIB:.1f} KiB"
