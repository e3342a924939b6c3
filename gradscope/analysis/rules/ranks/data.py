"""Rules about which samples ranks read, and which parts they take of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at
from gradscope.analysis.ranks.training.data.evaluated import means_of_means
from gradscope.analysis.ranks.training.data.given import cut_again, same_part
from gradscope.analysis.ranks.training.data.loaders import (
    LoadedApart,
    PartsLeft,
    loaded_apart,
    parts_left,
)
from gradscope.analysis.ranks.training.data.sizes import MUCH
from gradscope.analysis.ranks.whose import FEW, listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, Act, Span
from gradscope.trace.trace import Trace

WHY_APART = {
    "seed": "each DistributedSampler takes its part of an order of its own: they shuffle with the "
    "seeds {0} and {1}, and only parts of one order do not overlap",
    "epoch": "each DistributedSampler takes its part of an order of its own: one shuffled for "
    "epoch {0} and the other for epoch {1}",
    "rank": "both DistributedSamplers were created for rank {0} of {1}",
    "split": "random_split drew other parts on each rank: what one rank holds out, another one "
    "trains on",
}
FIX_APART = {
    "seed": "pass the same seed to the DistributedSamplers of all ranks",
    "epoch": "call `sampler.set_epoch(epoch)` with the same number on all ranks",
    "rank": "pass `rank=dist.get_rank()`, or leave it out",
    "split": "pass a generator with the same seed on all ranks: `random_split(data, sizes, "
    "torch.Generator().manual_seed(0))`",
}


@rule("GS021", "overlapping-parts", reads=("replicated", "act"), across=True)
def overlapping_parts(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel read the same samples, though a DistributedSampler divides.

    A DistributedSampler shuffles all samples, and takes every second one for each of two ranks. The
    parts belong together only if all ranks shuffle in the same way: with the same seed, for the
    same epoch, and the same data set. If it divides among more ranks than there are, no rank reads
    the other parts. Samples that come twice because their number is no multiple of that of the
    ranks are not reported.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.distributed import DistributedSampler
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(32, 4))
        sampler = DistributedSampler(data, seed=dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in DataLoader(data, batch_size=4, sampler=sampler):
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
        sampler = DistributedSampler(data, seed=1)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for each in trace.once(loaded_apart):
        one, other = each.passes
        site, evidence = _where(each)
        left = f", and no rank reads {each.left} of {each.whole}" if each.left > 0 else ""
        of = f"{each.both} of the {each.of} samples of a pass"
        yield Found(
            message=f"Ranks {each.ranks[0]} and {each.ranks[1]} both read {of}{at(one.site)}{left}",
            site=site if site.place else one.site,
            evidence=(Evidence(Act.TABLE, evidence), Evidence(Act.TABLE, other.act.id)),
            why=WHY_APART[each.why].format(*_numbers(each))
            + (f"; so in {each.times} passes" if each.times > 1 else ""),
            fix=FIX_APART[each.why],
        )
    yield from map(_never_read, trace.once(parts_left))


def _never_read(each: PartsLeft) -> Found:
    """Parts of a data set belong to ranks that do not exist."""
    first = each.first
    assert first.sampler is not None
    site, replicas = each.acts.site(first.sampler), first.sampler.facts.replicas
    numbers = ", ".join(map(str, each.read))
    return Found(
        message=f"No rank reads {each.left} of the {each.whole} samples of a pass{at(first.site)}: "
        f"they are divided into {replicas} parts, and only part{'s' * (len(each.read) > 1)} "
        f"{numbers} {'are' if len(each.read) > 1 else 'is'} read",
        site=site if site.place else first.site,
        evidence=(Evidence(Act.TABLE, first.sampler.id),),
        why="the DistributedSampler was created for more ranks than there are",
        fix="pass `num_replicas=dist.get_world_size()`, or leave it out",
    )


def _where(each: LoadedApart) -> tuple[Site, int]:
    """The line to change, and the act that shows it."""
    one, acts = each.passes[0], each.acts[0]
    cause = {"split": one.split, "epoch": one.act}.get(each.why, one.sampler)
    return (Site(), NONE) if cause is None else (acts.site(cause), cause.id)


def _numbers(each: LoadedApart) -> tuple[int, int]:
    one, other = each.passes
    if each.why == "epoch":
        return one.act.facts.epoch, other.act.facts.epoch
    first, second = (one.sampler and one.sampler.facts), (other.sampler and other.sampler.facts)
    if not first or not second:
        return NONE, NONE
    return (first.rank, first.replicas) if each.why == "rank" else (first.seed, second.seed)


@rule("GS022", "sliced-twice", reads=("replicated", "act"), across=True)
def sliced_twice(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel took a part of batches that were already divided.

    A DistributedSampler gave each rank its own samples, and the program passed to the model only
    the part of a batch that belongs to the number of the rank. The other samples are never seen.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, TensorDataset
        from torch.utils.data.distributed import DistributedSampler
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(32, 4))
        sampler = DistributedSampler(data)
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in DataLoader(data, batch_size=4, sampler=sampler):
            optimizer.zero_grad()
            x = x[dist.get_rank() :: dist.get_world_size()]
            model(x).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        from torch.utils.data import DataLoader, TensorDataset
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        data = TensorDataset(torch.randn(32, 4))
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for (x,) in DataLoader(data, batch_size=4):
            optimizer.zero_grad()
            x = x[dist.get_rank() :: dist.get_world_size()]
            model(x).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for each in trace.once(cut_again):
        yield Found(
            message=f"{listed(each.ranks).capitalize()} passed {each.taken} of the {each.batch} "
            f"samples of a batch to the model{at(each.site)}, in each of {each.times} batches",
            site=each.site,
            evidence=(Evidence(Act.TABLE, each.given.id),),
            why=f"the DistributedSampler of the loader{at(each.loader)} already gives each rank "
            "its part, and the program takes the part of its rank again: no rank sees the others",
            fix="pass the whole batch to the model",
        )


@rule(
    "GS023", "same-part-evaluated", needs="values", reads=("replicated", "act", "source"),
    across=True,
)  # fmt: skip
def same_part_evaluated(trace: Trace) -> Iterator[Found]:
    """Ranks of DistributedDataParallel evaluated the same part of data, and combined the results.

    The part has as many rows as each rank has if all take an equal part, and its bits were the same
    on all ranks: no rank evaluated the other rows. To evaluate all data on each rank is no finding.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        held_out = torch.randn(16, 4)
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        many = len(held_out) // dist.get_world_size()
        with torch.no_grad():
            total = model(held_out[:many]).square().sum()
        dist.all_reduce(total)
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(0)
        held_out = torch.randn(16, 4)
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        many = len(held_out) // dist.get_world_size()
        with torch.no_grad():
            total = model(held_out[many * dist.get_rank() :][:many]).square().sum()
        dist.all_reduce(total)
        dist.destroy_process_group()
    """
    for each in trace.once(same_part):
        often = f", in each of {each.times} evaluations" if each.times > 1 else ""
        yield Found(
            message=f"{listed(each.ranks).capitalize()} evaluated the same {each.part} of "
            f"{each.whole} rows{at(each.site)}{often}",
            site=each.site,
            evidence=(Evidence(Act.TABLE, each.given.id),),
            why="each rank has the rows of one part, and all have the same one: what they combine "
            "counts it several times, and leaves out the other rows",
            fix="let each rank take its own part: `data[rank * many : (rank + 1) * many]`",
            certainty=Certainty.INFERRED,
        )


@rule(
    "GS030", "mean-of-means", reads=("replicated", "act", "collective", "source"), across=True,
)  # fmt: skip
def mean_of_means(trace: Trace) -> Iterator[Found]:
    """Ranks evaluated different numbers of rows, and then the mean of their means was taken.

    Rows of a rank with few of them count more than others, so it is not the mean of all rows. The
    finding needs a mean that is passed to all_reduce, divided by the number of ranks, and models
    that were called with other numbers of rows on each rank before it. Means of times do not count.
    It is a note if no rank had twice as many as another one.

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
            optimizer.step()
        with torch.no_grad():
            errors = model(torch.randn(5 + 25 * dist.get_rank(), 4)).square().sum(1)
        mean = errors.mean()
        dist.all_reduce(mean)
        print(mean / dist.get_world_size())
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
        with torch.no_grad():
            errors = model(torch.randn(5 + 25 * dist.get_rank(), 4)).square().sum(1)
        both = torch.tensor([errors.sum(), len(errors)])
        dist.all_reduce(both)
        print(both[0] / both[1])
        dist.destroy_process_group()
    """
    for each in trace.once(means_of_means):
        fewest, most = min(each.rows.values()), max(each.rows.values())
        often = f", in {each.times} evaluations" if each.times > 1 else ""
        yield Found(
            message=f"The mean{at(each.site)} is averaged over ranks{at(each.reduced_at)}, which "
            f"had evaluated {_rows(each.rows)} rows{often}",
            site=each.site,
            evidence=(Evidence(Span.TABLE, each.span),),
            why=f"each rank counts the same: a row of the smallest part counts "
            f"{most / fewest:.3g} times as much as one of the largest",
            fix="sum over ranks what the mean is taken of, and the number of rows, and divide then",
            severity=None if most >= MUCH * fewest else Severity.NOTE,
            certainty=Certainty.INFERRED,
        )


def _rows(rows: Mapping[int, int]) -> str:
    """As in "20 (rank 0) and 64 (rank 1)"; of many ranks the fewest and the most."""
    if len(rows) <= FEW:
        return " and ".join(f"{many} ({listed([rank])})" for rank, many in rows.items())
    return f"from {min(rows.values())} to {max(rows.values())}"
