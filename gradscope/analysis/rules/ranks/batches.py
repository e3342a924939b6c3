"""Rules about the data that ranks train on. They read the merged trace of several ranks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import at, site_of_row
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.ranks.merging.one_rank import parts
from gradscope.analysis.ranks.replicas import same_losses
from gradscope.analysis.ranks.training.branches import loop_around
from gradscope.analysis.ranks.training.data.batches import Shared, again, given_at, shared
from gradscope.analysis.ranks.training.data.loaders import Loading, same_orders, undivided_at
from gradscope.analysis.ranks.training.data.sizes import unequal_sizes
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.functions import last_name
from gradscope.analysis.timing.by_line import LOADING
from gradscope.trace.schema import NONE, Act, Op, Span
from gradscope.trace.trace import Trace

SAMPLER = "DistributedSampler"


@rule("GS008", "unequal-batches", Severity.NOTE, reads=("replicated",), across=True)
def unequal_batches(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel had batches of different sizes, and each took its own mean.

    DistributedDataParallel averages gradients over ranks, each with the same weight. If the loss of
    each rank is a mean over its batch, samples of a small batch count more than others. For the
    last batch of an epoch this matters little. It is a warning if one rank always takes its mean
    over less than half of the values of another one, in four backwards or more: then each of its
    values has a larger weight in the whole run.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        size = 8 if dist.get_rank() == 0 else 2
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(size, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        size = 8 if dist.get_rank() == 0 else 2
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(size, 4)).square().mean()
            (loss * size * dist.get_world_size() / 10).backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for sizes in trace.once(unequal_sizes):
        means = sizes.means
        op = next(iter(means.values())).op
        site = site_of_row(trace, Op, op)
        shown = ", ".join(
            f"{over} on {listed([rank for rank in means if means[rank].over == over])}"
            for over in dict.fromkeys(mean.over for mean in means.values())
        )
        yield Found(
            message=f"Ranks took their losses as means over different sizes in {sizes.steps} of "
            f"{sizes.of} steps: {shown} in step {sizes.step}{at(site)}",
            site=site,
            evidence=tuple(Evidence(Op.TABLE, mean.op) for mean in means.values()),
            why="DistributedDataParallel averages the gradients of ranks with equal weights: "
            "values of smaller batches count more",
            fix="give all ranks batches of the same size (drop_last=True), or multiply each loss "
            "by the size of its batch and the number of ranks, and divide by the size of all",
            severity=None if sizes.fewest == NONE else Severity.WARNING,
        )


@rule(
    "GS010", "shared-batches", needs="values", reads=("replicated", "value", "op.inputs"),
    across=True,
)  # fmt: skip
def shared_batches(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel had the same batches, in the same step or close to it.

    The statistics of what was passed to the model are equal for several batches in a row. Data is
    compared where a call saved it for its backward, and only if it tells batches apart: random
    numbers that are drawn in each step, labels and masks do not.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = torch.randn(9, 8, 4)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            optimizer.zero_grad()
            model(data[step + dist.get_rank()]).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = torch.randn(16, 8, 4)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            optimizer.zero_grad()
            model(data[2 * step + dist.get_rank()]).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    known = [{*same.ranks} for same in trace.once(same_losses)]  # GS004
    for each in trace.once(shared):
        if any({*each.ranks} <= ranks for ranks in known):
            continue
        given = given_at(each.part, each.first)
        loader = undivided_at(trace, each.part.rank)
        yield Found(
            message=f"{_those(each)}{at(given)}",
            site=given if loader is None else loader[0],
            evidence=(Evidence(Op.TABLE, each.first.op),),
            why=f"the statistics of {each.many} of {each.of} batches{' of an epoch' * each.epochs} "
            "are equal on both ranks: they repeat each other's work",
            fix="give each rank its own part of the data with DistributedSampler",
            certainty=Certainty.INFERRED,
        )


@rule(
    "GS011", "same-order", needs="values",
    reads=("replicated", "value", "op.inputs", "source"), across=True,
)  # fmt: skip
def same_order(trace: Trace) -> Iterator[Found]:
    """Each epoch had the same batches in the same order: DistributedSampler.set_epoch is missing.

    A DistributedSampler shuffles by its seed and the number that `set_epoch` gives it, at first 0.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.distributed import DistributedSampler
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(32, 4))
        sampler = DistributedSampler(data)
        loader = DataLoader(data, batch_size=4, sampler=sampler)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.distributed import DistributedSampler
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(32, 4))
        sampler = DistributedSampler(data)
        loader = DataLoader(data, batch_size=4, sampler=sampler)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(2):
            sampler.set_epoch(epoch)
            for (x,) in loader:
                optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        dist.destroy_process_group()
    """
    known = any(part.trace.once(Loading).passes for part in trace.once(parts))
    yield from (_in_one_order if known else _in_one_order_by_values)(trace)


def _in_one_order(trace: Trace) -> Iterator[Found]:
    for same in trace.once(same_orders):
        first, sampler = same.first, same.first.sampler
        assert sampler is not None
        acts, many = same.part.trace.once(Acts), len(first.batches)
        where, epoch = acts.site(sampler), first.act.facts.epoch
        yield Found(
            message=f"{listed(same.ranks).capitalize()} had the same {many} batches in the same "
            f"order {same.times} times{at(first.site)}: the epoch of the {SAMPLER}{at(where)} "
            f"stayed {epoch}",
            site=loop_around(same.part.trace, first.site) or first.site,
            evidence=(Evidence(Act.TABLE, first.act.id), Evidence(Act.TABLE, sampler.id)),
            why="it shuffles by its seed and the number of the epoch, which set_epoch gives it",
            fix="call `sampler.set_epoch(epoch)` at the start of each epoch",
        )


def _in_one_order_by_values(trace: Trace) -> Iterator[Found]:
    """The same of a trace without the samples of loaders."""
    every = trace.once(again) if LOADING in trace.table(Span).texts("name") else ()
    sampler = trace.once(_never_told) if every else None
    if sampler is None:
        return
    first = every[0]
    site = given_at(first.part, first.first)
    yield Found(
        message=f"{listed([each.part.rank for each in every]).capitalize()} had the same "
        f"{first.every} batches in the same order {first.times} times{at(site)}: set_epoch of the "
        f"{SAMPLER}{at(sampler.site)} is never called",
        site=site,
        evidence=(Evidence(Op.TABLE, first.first.op), sampler.evidence),
        why="it shuffles by its seed and the number of the epoch, which stays 0",
        fix="call `sampler.set_epoch(epoch)` at the start of each epoch",
        certainty=Certainty.INFERRED,
    )


def _those(each: Shared) -> str:
    one, other = each.ranks if each.later >= 0 else each.ranks[::-1]
    batches = "batch" if each.many == 1 else f"{each.many} batches"
    if each.epochs:
        return f"Ranks {one} and {other} had the same {batches} in each epoch"
    steps = f"{abs(each.later)} step{'s' * (abs(each.later) > 1)}"
    and_ = f" and, {steps} later, rank" if each.later else " and rank"
    return f"Rank {one}{and_} {other} had the same {batches} in a row"


class _Called(NamedTuple):
    """A call that says how data is shuffled."""

    line: int
    name: str  # DistributedSampler, set_epoch
    shuffles: bool


def _samplers(tree: ast.Module) -> Iterator[_Called]:
    for each in ast.walk(tree):
        if isinstance(each, ast.Call) and (name := last_name(each.func)) in (SAMPLER, "set_epoch"):
            said = [more.value for more in each.keywords if more.arg in ("shuffle", None)]
            plain = all(isinstance(one, ast.Constant) and one.value is True for one in said)
            yield _Called(each.lineno, name, plain and len(each.args) < 4)


def _never_told(trace: Trace) -> InSource[_Called] | None:
    """The only DistributedSampler of a program that shuffles, if set_epoch is nowhere called."""
    found = trace.once(parts)[0].trace.once(SourceFiles).each(_samplers)  # all ranks have them
    alone = len(found) == 1 and found[0].found.name == SAMPLER and found[0].found.shuffles
    return found[0] if alone else None
