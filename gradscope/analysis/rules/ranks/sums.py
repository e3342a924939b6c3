"""Rules about sums over ranks that are missing, or have something too often."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at, own_site
from gradscope.analysis.lookups import grouped
from gradscope.analysis.ranks.training.exchanged.passed_back import own_part_only
from gradscope.analysis.ranks.training.gradients.added import added_on_each_rank
from gradscope.analysis.ranks.training.gradients.never_summed import NeverSummed, never_summed
from gradscope.analysis.ranks.training.sent_once import sent_once
from gradscope.analysis.ranks.whose import listed, norms_in_words
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import Node, Op, Span
from gradscope.trace.trace import Trace


@rule(
    "GS019", "gradient-never-summed", needs="values",
    reads=("act", "accumulate", "op.inputs", "value"), steps="first", across=True,
)  # fmt: skip
def gradient_never_summed(trace: Trace) -> Iterator[Found]:
    """Ranks compute one loss together, and each uses only its own part of a gradient.

    A parameter is equal on all ranks at first, and what is computed from it is multiplied by a
    matrix of which each rank holds another part. So the gradient that comes back on each rank is a
    part of the whole, and must be summed over ranks: by the backward of the input of that product,
    or after the backward. The finding needs ranks that have equal losses, or that gather what each
    computed from its part of the data, and parameters that are never equal again.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        embed = torch.nn.Embedding(20, 8)
        torch.manual_seed(1 + dist.get_rank())
        up, down = (torch.nn.Parameter(torch.randn(8, 8) / 3) for _ in range(2))
        optimizer = torch.optim.SGD([*embed.parameters(), up, down], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            part = (embed(torch.arange(12) + step) @ up).relu() @ down
            whole = part.detach().clone()
            dist.all_reduce(whole)
            (part + (whole - part.detach()) - 1).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        embed = torch.nn.Embedding(20, 8)
        torch.manual_seed(1 + dist.get_rank())
        up, down = (torch.nn.Parameter(torch.randn(8, 8) / 3) for _ in range(2))
        optimizer = torch.optim.SGD([*embed.parameters(), up, down], lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            part = (embed(torch.arange(12) + step) @ up).relu() @ down
            whole = part.detach().clone()
            dist.all_reduce(whole)
            (part + (whole - part.detach()) - 1).square().mean().backward()
            dist.all_reduce(embed.weight.grad)
            optimizer.step()
        dist.destroy_process_group()
    """
    for found in trace.once(never_summed):
        first, *rest = found.parameters
        named = f"{first.name or 'a parameter'}{f' and {len(rest)} more' if rest else ''}"
        norms = norms_in_words(first.grads)
        yield Found(
            message=f"The gradient of {named} is a part on each rank, and is never summed over "
            f"ranks: its norm is {norms} in step 0, and values differ from then on{at(found.site)}",
            site=found.site,
            evidence=(Evidence(Op.TABLE, found.op),),
            why=_why(found),
            fix="sum the gradient over ranks: with a function before this product whose backward "
            "is an all_reduce, or after the backward",
            certainty=Certainty.INFERRED,
        )


def _why(found: NeverSummed) -> str:
    name = found.part.name or "a parameter"
    if found.gathered:
        return (
            f"each rank used it on its part of the data{at(found.used_at)}; the parts are "
            f"gathered, and multiplied by {name}, of which each rank has another part"
        )
    return (
        f"losses are equal on all ranks, and so is what is multiplied{at(found.used_at)} by "
        f"{name}, of which each rank has another part"
    )


@rule(
    "GS020", "added-on-each-rank", needs="values",
    reads=("act", "work", "op.inputs", "value", "source"), steps="first", across=True,
)  # fmt: skip
def added_by_each_rank(trace: Trace) -> Iterator[Found]:
    """Each rank adds the same bias to its part of a sum over ranks: the sum has it several times.

    A row-parallel layer multiplies parts of its input by parts of its weight, and sums the results
    over ranks. The bias belongs to the sum: it is added after it, or by one rank. The finding needs
    a bias that is equal on all ranks and not zero, and a weight of which each has another part. A
    sum that is divided by the number of ranks is left out.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        weight = torch.nn.Parameter(torch.randn(3, 4))
        bias = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight, bias], lr=0.01)
        for step in range(3):
            optimizer.zero_grad()
            part = torch.nn.functional.linear(torch.randn(6, 4), weight, bias)
            whole = part.detach().clone()
            dist.all_reduce(whole)
            (part + (whole - part.detach())).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        weight = torch.nn.Parameter(torch.randn(3, 4))
        bias = torch.nn.Parameter(torch.ones(3))
        optimizer = torch.optim.SGD([weight, bias], lr=0.01)
        for step in range(3):
            optimizer.zero_grad()
            part = torch.nn.functional.linear(torch.randn(6, 4), weight)
            whole = part.detach().clone()
            dist.all_reduce(whole)
            (part + (whole - part.detach()) + bias).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for found in trace.once(added_on_each_rank):
        name, part = found.parameter.name or "a bias", found.part.name or "a weight"
        yield Found(
            message=f"Each of {found.size} ranks adds {name} to its part of a sum{at(found.site)}, "
            f"so the sum{at(found.summed_at)} has it {found.size} times",
            site=found.site,
            evidence=(Evidence(Op.TABLE, found.op), Evidence(Span.TABLE, found.span)),
            why=f"{name} is equal on all ranks, and {part} is another part on each: what "
            "all_reduce passed on is the sum of what ranks computed with both, not the average",
            fix="add it after the sum, or on one rank only",
            certainty=Certainty.INFERRED,
        )


@rule("GS027", "equal-only-at-first", needs="values", reads=("act", "collective"), across=True)
def equal_only_at_first(trace: Trace) -> Iterator[Found]:
    """A parameter was sent to other ranks at the start, and then each rank stepped it alone.

    Ranks that share a parameter, as the first and last stage of a pipeline share an embedding,
    must sum its gradient over them before each step. Here it was broadcast once, its gradients
    differed at the first step, and its values in all later ones. Nothing is reported if a rank got
    all of its parameters that way: then ranks may train their own copies.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        tied, own = (torch.nn.Parameter(torch.randn(4, 4)) for _ in range(2))
        optimizer = torch.optim.SGD([tied, own], lr=0.1)
        dist.broadcast(tied.data, src=0)
        for step in range(3):
            optimizer.zero_grad()
            (torch.randn(8, 4) @ tied @ own).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        tied, own = (torch.nn.Parameter(torch.randn(4, 4)) for _ in range(2))
        optimizer = torch.optim.SGD([tied, own], lr=0.1)
        dist.broadcast(tied.data, src=0)
        for step in range(3):
            optimizer.zero_grad()
            (torch.randn(8, 4) @ tied @ own).square().mean().backward()
            dist.all_reduce(tied.grad)
            optimizer.step()
        dist.destroy_process_group()
    """
    by_line = grouped(
        trace.once(sent_once),
        lambda each: (each.name, own_site(trace, each.sent.stack), each.site),
    )
    for (name, sent, site), those in by_line.items():
        first = those[0]
        groups = "; ".join(listed([*each.tensors]) for each in those)
        norms = norms_in_words(first.grads)
        yield Found(
            message=f"{name or 'A parameter'} was sent to {groups} once{at(sent)}, and each of "
            f"them steps it with a gradient of its own: its norm is {norms} in step 0{at(site)}",
            site=site,
            evidence=(Evidence(Span.TABLE, first.sent.span),),
            why="its values were equal at the first step, and differ in all later ones",
            fix="sum its gradient over these ranks before each step",
            certainty=Certainty.INFERRED,
        )


@rule(
    "GS029", "own-part-passed-back", needs="values",
    reads=("collective", "value", "op.inputs"), across=True,
)  # fmt: skip
def own_part_passed_back(trace: Trace) -> Iterator[Found]:
    """A custom Function gathers tensors of all ranks, and passes back one part of the gradient.

    Each rank computes its own loss from the tensors of all ranks. So each tensor has a gradient
    from each rank, and the right one is their sum. The backward of the Function takes its own part
    of the gradient on this rank: what other losses say is lost. The finding needs gradients that
    differ between ranks. Where all ranks compute the same loss, the own part is right.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        class Gather(torch.autograd.Function):
            @staticmethod
            def forward(ctx, own):
                parts = [torch.empty_like(own) for _ in range(2)]
                dist.all_gather(parts, own)
                return torch.cat(parts)
            @staticmethod
            def backward(ctx, grad):
                return grad.chunk(2)[dist.get_rank()]
        torch.manual_seed(dist.get_rank())
        weight = torch.nn.Parameter(torch.randn(4, 3))
        own = torch.randn(5, 4) @ weight
        (own @ Gather.apply(own).T).logsumexp(1).sum().backward()
        torch.optim.SGD([weight], lr=0.1).step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        class Gather(torch.autograd.Function):
            @staticmethod
            def forward(ctx, own):
                parts = [torch.empty_like(own) for _ in range(2)]
                dist.all_gather(parts, own)
                return torch.cat(parts)
            @staticmethod
            def backward(ctx, grad):
                dist.all_reduce(grad)
                return grad.chunk(2)[dist.get_rank()]
        torch.manual_seed(dist.get_rank())
        weight = torch.nn.Parameter(torch.randn(4, 3))
        own = torch.randn(5, 4) @ weight
        (own @ Gather.apply(own).T).logsumexp(1).sum().backward()
        torch.optim.SGD([weight], lr=0.1).step()
        dist.destroy_process_group()
    """
    for found in trace.once(own_part_only):
        yield Found(
            message=f"The backward of {found.function}{at(found.site)} passes on the own part of "
            f"the gradient, and drops the parts of other ranks ({found.dropped:.0%} of its squared "
            f"norm), on {listed(found.ranks)}",
            site=found.site,
            evidence=(Evidence(Span.TABLE, found.span), Evidence(Node.TABLE, found.node)),
            why=f"{found.gather}{at(found.gathered_at)} gives this tensor to all ranks, whose "
            "losses differ: none of them sends back the gradient that belongs to another rank",
            fix="sum the gradient over ranks in the backward, with all_reduce or reduce_scatter, "
            "before it takes its part; or use torch.distributed.nn.functional.all_gather",
            certainty=Certainty.INFERRED,
        )
