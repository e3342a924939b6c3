"""Rules about gradients that ranks scaled too early. They read a merged trace."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at, own_site
from gradscope.analysis.identity.steps import step_numbers
from gradscope.analysis.ranks.audit import audits
from gradscope.analysis.ranks.combined import scaled_at
from gradscope.analysis.ranks.training.exchanged.through import not_through
from gradscope.analysis.ranks.training.gradients.clipped import ClippedApart, clipped_apart
from gradscope.analysis.ranks.training.gradients.divided import divided_losses
from gradscope.analysis.ranks.whose import norms_in_words
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import Op, Span, Tensor
from gradscope.trace.trace import Trace


@rule("GS017", "clipped-before-the-average", reads=("act",), across=True)
def clipped_before_the_average(trace: Trace) -> Iterator[Found]:
    """Each rank clipped its own gradient, and then the program combined the gradients of all ranks.

    Ranks with large gradients scaled them down, and others did not. So the average is not the
    gradient of the average loss: ranks have different weights in it. The finding needs factors
    that differ between ranks, and a reduction of the same gradients between clipping and step.
    Gradients that are clipped again after that, or to which noise is added, are left out.

    Bad:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.randn(8, 4) * (1 + 9 * dist.get_rank())
            net(x).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            for each in net.parameters():
                dist.all_reduce(each.grad)
                each.grad /= dist.get_world_size()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for _ in range(3):
            optimizer.zero_grad()
            x = torch.randn(8, 4) * (1 + 9 * dist.get_rank())
            net(x).square().mean().backward()
            for each in net.parameters():
                dist.all_reduce(each.grad)
                each.grad /= dist.get_world_size()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
        dist.destroy_process_group()
    """
    for apart in trace.once(clipped_apart):
        one = next(iter(apart.first.values()))
        site, reduced = own_site(trace, one.act.stack), own_site(trace, one.stack)
        evidence = [Evidence("act", each.act.id) for each in apart.first.values()]
        yield Found(
            message=f"Each rank clipped its own gradient{at(site)}, before the gradients were "
            f"combined{at(reduced)}, in {_times(trace, apart)}, "
            f"norms were {_norms(apart)}, and the limit {one.act.facts.max:g}",
            site=site,
            evidence=(*evidence, Evidence(Span.TABLE, one.span)),
            why="ranks multiplied their gradients by different factors, so they have different "
            "weights in what was combined",
            fix="combine gradients first, and clip the result, which is equal on all ranks",
            certainty=Certainty.INFERRED,
        )


def _times(trace: Trace, apart: ClippedApart) -> str:
    """As in "4 of 4 steps: in step 0"."""
    first = next(iter(apart.first.values())).act
    number = trace.once(step_numbers).get(first.step, 0)
    return f"{apart.times} of {apart.of} steps: in step {number}"


def _norms(apart: ClippedApart) -> str:
    return norms_in_words({rank: each.act.facts.norm for rank, each in apart.first.items()})


@rule(
    "GS018", "loss-divided-by-ranks", needs="values",
    reads=("replicated", "act", "accumulate", "source"), across=True,
)  # fmt: skip
def loss_divided_by_ranks(trace: Trace) -> Iterator[Found]:
    """The loss was divided by the number of ranks, and DistributedDataParallel averaged gradients.

    DistributedDataParallel divides the sum of gradients by the number of ranks. If the loss is
    divided by it too, gradients are too small by that factor. The finding needs a division by a
    multiple of the number of ranks that names them in the source, and gradients that were averaged.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(8, 4)).square().mean()
            loss = loss / dist.get_world_size()
            loss.backward()
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
            loss = model(torch.randn(8, 4)).square().mean()
            loss.backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    named = {own_site(trace, each.used.stack) for each in trace.once(not_through)}  # GS013
    for divided in trace.once(divided_losses):
        if divided.site in named:
            continue
        by = f"{divided.by:g}"
        if divided.by != divided.size:
            by += f", a multiple of the number of ranks ({divided.size}),"
        yield Found(
            message=f"The loss was divided by {by}{at(divided.site)}, and "
            f"DistributedDataParallel averaged its gradients over {divided.size} ranks",
            site=divided.site,
            evidence=tuple(Evidence(Op.TABLE, op) for op in divided.ops.values()),
            why=f"the number of ranks is divided by twice: gradients are {divided.size} times "
            "too small",
            fix="leave the number of ranks out of this division: DistributedDataParallel divides "
            "by it",
            certainty=Certainty.INFERRED,
        )


@rule(
    "GS028", "parts-scaled-apart", needs="values", reads=("act", "accumulate"), steps="first",
    across=True,
)  # fmt: skip
def parts_scaled_apart(trace: Trace) -> Iterator[Found]:
    """Ranks hold parts of the same parameters, and each scaled its parts by another factor.

    As if each rank had clipped by the norm of its own parts: the direction of the gradient changes.
    The norm must be that of all parts; `torch.nn.utils.clip_grad_norm_` computes it for the
    parameters of `fully_shard`, and FullyShardedDataParallel has a method for it. The factors are
    those with which the sums of what arrived and of what was used agree, for most parameters.

    Bad:
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (model(torch.randn(8, 8)) - torch.arange(8.0)).square().mean().backward()
            for parameter in model.parameters():
                parameter.grad.to_local().mul_(0.1 + 0.2 * dist.get_rank())
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.distributed.fsdp import fully_shard
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4)))
        fully_shard(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            (model(torch.randn(8, 8)) - torch.arange(8.0)).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()
        dist.destroy_process_group()
    """
    for audit in audits(trace) if len(trace.meta.get("ranks", ())) > 1 else ():
        apart = [each for each in audit.parameters if each.factors]
        if not apart:
            continue
        site = scaled_at(trace, audit)
        yield Found(
            message="Each rank scaled its parts of gradients by another factor in step "
            f"{audit.number}: {norms_in_words(apart[0].factors)}{at(site)}",
            site=site,
            evidence=(Evidence(Tensor.TABLE, apart[0].tensor),),
            why="sums of what arrived and of what the step used agree with these factors; parts of "
            "one gradient must have the same one",
            fix="clip by the norm of all parts: sum the squares over ranks first, or use the "
            "clipping of the library that divides the model",
            certainty=Certainty.INFERRED,
        )
