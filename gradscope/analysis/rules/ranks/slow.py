"""The rule about a rank that others wait for. It reads the merged trace of several ranks."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import at
from gradscope.analysis.ranks.collectives import REDUCES
from gradscope.analysis.ranks.training.data.heavier import HeavierRank, heavier_ranks
from gradscope.analysis.ranks.training.late import late_ranks
from gradscope.analysis.ranks.training.slow import IN, SlowRank, slow_ranks
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import GraphTask, Span
from gradscope.trace.trace import Trace

MOST_OF_THE_TIME = 0.5
"""Share of the time of steps from which on it is a warning."""


@rule("GS007", "slow-rank", Severity.NOTE, reads=("replicated", "accumulate", "act"), across=True)
def slow_rank(trace: Trace) -> Iterator[Found]:
    """A rank of DistributedDataParallel came last in most steps, because of a line or its data.

    In each backward all ranks wait until the last one has begun it. The finding names the line at
    which that rank takes clearly longer than the others, in most steps. It is a warning if others
    wait for half of the time. Nothing is reported if all lines of a rank are slower, as on a slower
    device or a busy machine, or if ranks ran on several machines. First steps are left out.

    Bad:
        import time
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        def load():
            if dist.get_rank() == 1:
                time.sleep(0.2)
            return torch.randn(8, 4)

        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            model(load()).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()

    Good:
        import time
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        def load():
            time.sleep(0.2)
            return torch.randn(8, 4)

        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            optimizer.zero_grad()
            model(load()).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for slow in trace.once(slow_ranks):
        yield Found(
            message=f"Rank {slow.rank} began {slow.last} of {slow.steps} backwards last, "
            f"{_ms(slow.late)} after the others: {_where(slow)}",
            site=slow.site,
            evidence=(Evidence(GraphTask.TABLE, slow.task),),
            why=f"the others waited for it {slow.share:.0%} of the time (times are medians)",
            fix="divide the work of that line among ranks, or move it out of the step",
            certainty=Certainty.INFERRED,
            severity=Severity.WARNING if slow.share >= MOST_OF_THE_TIME else None,
        )
    yield from map(_computes_more, trace.once(heavier_ranks))


def _computes_more(heavy: HeavierRank) -> Found:
    """A rank whose lines all take longer, because its tensors are larger."""
    waited, size = heavy.waited, heavy.shapes
    shapes = ", ".join(f"[{', '.join(map(str, of))}] on rank {rank}" for rank, of in size.items())
    return Found(
        message=f"Rank {waited.rank} began {waited.last} of {len(waited.numbers)} backwards last, "
        f"{_ms(waited.late)} after the others: it computes {heavy.factor:.3g} times as many values "
        f"in a step; results first differ{at(heavy.site)}: {shapes}",
        site=heavy.site,
        evidence=(Evidence(GraphTask.TABLE, waited.task),),
        why=f"the others waited for it about {waited.share:.0%} of the time, before backwards "
        "and in them (times are medians)",
        fix="give ranks the same amount of work in each step: sort samples by length, or limit "
        "batches by their number of tokens",
        certainty=Certainty.INFERRED,
        severity=Severity.WARNING if waited.share >= MOST_OF_THE_TIME else None,
    )


def _where(slow: SlowRank) -> str:
    how = "were spent in" if slow.how == IN else f"passed {slow.how}"
    return f"{_ms(slow.took)} {how} {slow.name}, on others {_ms(slow.others)}"


def _ms(ns: int) -> str:
    return f"{ns / 1e6:.3g} ms"


@rule("GS024", "others-wait", Severity.WARNING, reads=("collective", "act"), across=True)
def others_wait(trace: Trace) -> Iterator[Found]:
    """A rank ran a line that no other rank runs, while the others waited in a collective.

    For example rank 0 evaluates the model after each epoch, and all other ranks wait at a barrier.
    Reported if others waited twice or more at the same collective, at least 0.2 s each time and for
    a fifth of the time, and if most of that time passed in or after the same line. Nothing is
    reported about `state_dict()`, which belongs to a checkpoint, or if ranks ran on several
    machines.

    Bad:
        import time
        import torch.distributed as dist

        @torch.no_grad()
        def evaluate():
            time.sleep(0.4)

        dist.init_process_group("gloo")
        weight = torch.ones(3, requires_grad=True)
        for _ in range(4):
            weight.square().sum().backward()
            if dist.get_rank() == 0:
                evaluate()
            dist.barrier()
        dist.destroy_process_group()

    Good:
        import time
        import torch.distributed as dist

        @torch.no_grad()
        def evaluate():
            time.sleep(0.4)

        dist.init_process_group("gloo")
        weight = torch.ones(3, requires_grad=True)
        for _ in range(4):
            weight.square().sum().backward()
            evaluate()
            dist.barrier()
        dist.destroy_process_group()
    """
    for late in trace.once(late_ranks):
        where = "a backward" if late.kind == REDUCES else late.call.name
        only = f"only rank {late.rank} runs{at(late.site)}"
        branch = f", inside of the branch{at(late.branch)}" if late.branch else ""
        yield Found(
            message=f"{listed(late.waiting).capitalize()} waited {late.waited / 1e9:.2g} s "
            f"({late.share:.0%} of the time) for rank {late.rank} in {where}{at(late.called_at)}, "
            f"{late.late} times of {late.many}",
            site=late.site,
            evidence=(Evidence(Span.TABLE, late.call.span),),
            why=f"each time, most of it passed in or after a line that {only}{branch}",
            fix="divide this work among ranks, do it less often, or let the others go on",
            certainty=Certainty.INFERRED,
        )
