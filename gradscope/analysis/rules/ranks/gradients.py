"""Rules about gradients that ranks combine. They read the merged trace of several ranks."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at
from gradscope.analysis.ranks.audit import Combining
from gradscope.analysis.ranks.combined import (
    CombinedApart,
    OddlyCombined,
    combined_apart,
    oddly_combined,
)
from gradscope.analysis.ranks.training.exchanged.held import other_orders
from gradscope.analysis.ranks.training.exchanged.waiting import may_hold
from gradscope.analysis.ranks.training.gradients.aligned import HeldParameter
from gradscope.analysis.ranks.training.gradients.exchanged_names import combined_with_others
from gradscope.analysis.ranks.training.gradients.left_as_sums import LeftAsSums, left_as_sums
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import Op, Span
from gradscope.trace.trace import Trace

FIX_TWICE = (
    "let DistributedDataParallel average gradients, or reduce each gradient once after the last "
    "backward, and divide it by the number of ranks"
)
FIX_ONE_WAY = "combine the gradients of all parameters in the same way: sum them and divide once"


@rule(
    "GS012", "gradients-combined-twice", needs="values", reads=("act", "accumulate"),
    steps="first", across=True,
)  # fmt: skip
def gradients_combined_twice(trace: Trace) -> Iterator[Found]:
    """Gradients of ranks were reduced or divided twice, or unlike those of other parameters.

    The sums of elements show how a gradient was made from those of all ranks, see
    `gradscope audit`. DistributedDataParallel averages gradients: if the program sums or divides
    them again, steps are larger or smaller than the learning rate says. Parameters that are equal
    on all ranks are judged, at the first step that was measured. Others are named if a collective
    in the backward brings the gradients of all ranks' losses to them (experts), so that they are
    sums, while the same optimizer uses averages of the rest; or if their gradients are combined
    over ranks that hold different values of them.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            for parameter in model.parameters():
                parameter.grad /= 2
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
    for odd in trace.once(oddly_combined):
        first, *rest = odd.parameters
        if may_hold(trace, [each.tensor for each in odd.parameters]):
            continue  # GS014: what the step used is not known
        more = f" and {len(rest)} more" if rest else ""
        while_others = f", while {odd.others} others were averaged" if odd.others else ""
        yield Found(
            message=f"The gradient{'s' * bool(rest)} of {first.name}{more} "
            f"{'were' if rest else 'was'} {_words(odd)} in step {odd.audit.number}{while_others}"
            f"{at(odd.site)}",
            site=odd.site,
            evidence=tuple(Evidence(Span.TABLE, each.span) for each in odd.reduced),
            why=_why(odd),
            fix=FIX_TWICE if odd.reduced or not odd.others else FIX_ONE_WAY,
            certainty=Certainty.INFERRED,
        )

    yield from map(_sum_beside_averages, trace.once(left_as_sums))
    yield from map(_of_different_tensors, trace.once(combined_apart))


def _of_different_tensors(apart: CombinedApart) -> Found:
    """Gradients are combined over ranks that hold different values of the parameters."""
    first, *rest = apart.parameters
    them = "them" if rest else "it"
    called = "".join(f", called{at(each)}" for each in apart.callers)
    more = f" and {len(rest)} more" if rest else ""
    return Found(
        message=f"The gradient{'s' * bool(rest)} of {first.name}{more} "
        f"{'were' if rest else 'was'} combined over {listed(first.ranks)} in step 0, "
        f"which have different values of {them}{at(apart.site)}{called}",
        site=apart.site,
        evidence=(Evidence(Span.TABLE, apart.span),),
        why="the average of gradients at different weights is the gradient at none of them",
        fix="if ranks hold parts of one tensor, pass the group of the ranks with the same part; if "
        "they hold copies, make these equal before the first step",
        certainty=Certainty.INFERRED,
    )


def _sum_beside_averages(left: LeftAsSums) -> Found:
    """Gradients are sums over ranks, and others of the same optimizer are averages."""
    names, averaged = _named(left.parameters), _named(left.averaged)
    are = "are sums" if len(left.parameters) > 1 else "is a sum"
    return Found(
        message=f"The gradient{'s' * (len(left.parameters) > 1)} of {names} {are} over "
        f"{left.size} ranks in step 0, while {averaged} got the average{at(left.site)}",
        site=left.site,
        evidence=(Evidence("act", left.act), Evidence(Op.TABLE, left.op)),
        why=f"gradients of all ranks' losses came back{at(left.through)}, and nothing divided "
        f"them: next to the averages they are {left.size} times too large",
        fix="divide these gradients by the number of ranks, too",
        certainty=Certainty.INFERRED,
    )


def _named(several: tuple[HeldParameter, ...]) -> str:
    first, *rest = several
    return f"{first.name or 'a parameter'}{f' and {len(rest)} more' if rest else ''}"


def _words(odd: OddlyCombined) -> str:
    first = odd.parameters[0]
    if not odd.reduced:
        return first.words
    times = f"reduced {len(odd.reduced)} times"
    known = first.how not in {Combining.APART, Combining.UNKNOWN, Combining.OWN}
    return f"{times} ({first.factor:.3g} times the average)" if known else times


def _why(odd: OddlyCombined) -> str:
    if odd.reduced:
        by = ", then ".join(
            f"{each.name} of {each.caller}" if each.caller else each.name for each in odd.reduced
        )
        return f"before this step came {by}: what had been combined was combined again"
    return "the sums of what arrived on all ranks, and of what the step used, show it"


@rule("GS031", "gradients-of-others", reads=("act",), steps="first", across=True)
def gradients_of_others(trace: Trace) -> Iterator[Found]:
    """A rank used for a parameter the gradient that another rank used for another parameter.

    Gradients are combined by position: DistributedDataParallel uses the order in which modules were
    added, and a flat buffer the order in which it was filled. If ranks have different orders, and
    shapes fit, nothing fails. Reported if the gradients of at least two parameters of the same
    names are exchanged between two ranks, in each of the first steps.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        names = ["left", "right"] if dist.get_rank() == 0 else ["right", "left"]
        net = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in names})
        model = DistributedDataParallel(torch.nn.Sequential(net))
        net.forward = lambda x: net["right"](net["left"](x).tanh())
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
        names = ["left", "right"]
        net = torch.nn.ModuleDict({name: torch.nn.Linear(4, 4) for name in names})
        model = DistributedDataParallel(torch.nn.Sequential(net))
        net.forward = lambda x: net["right"](net["left"](x).tanh())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    named = [each.site for each in trace.once(other_orders)]  # GS015
    for each in trace.once(combined_with_others):
        if each.site in named:
            continue
        (first, other), (here, there) = each.ranks, each.names
        order, (mine, theirs) = "", each.places
        if mine != theirs:
            order = f": {here} is parameter {mine} of the optimizer on rank {first}, and "
            order += f"parameter {theirs} on rank {other}"
        yield Found(
            message=f"Rank {other} used for {there} the gradient that rank {first} used for {here} "
            f"({each.many} parameters are exchanged), after the reduction{at(each.site)}",
            site=each.site,
            evidence=tuple(Evidence("act", step.id) for step in each.steps.values()),
            why=f"gradients are combined by position, and ranks have different orders{order}",
            fix="create modules and pass parameters in the same order on all ranks, for example "
            "`sorted(names)`; order flat buffers by name",
            certainty=Certainty.INFERRED,
        )
