"""The rule about running statistics. It reads the merged trace of several ranks."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Severity
from gradscope.analysis.identity.sites import at
from gradscope.analysis.ranks.training.own_statistics import OwnStatistics, own_statistics
from gradscope.analysis.ranks.whose import listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.trace import Trace


@rule(
    "GS026",
    "statistics-differ",
    Severity.NOTE,
    needs="values",
    reads=("replicated.broadcasts", "act"),
    across=True,
)
def statistics_differ(trace: Trace) -> Iterator[Found]:
    """Ranks have other running statistics of batch norm, and evaluate with them.

    With `broadcast_buffers=False` DistributedDataParallel leaves each rank the statistics of its
    own batches. It is a warning if several ranks then run the module in evaluation mode: the same
    sample gets another result on each rank. It is a note if they do not, or if the program may have
    exchanged the statistics before.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        model = DistributedDataParallel(torch.nn.BatchNorm1d(4), broadcast_buffers=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4) * (1 + rank)).square().mean().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(model(torch.ones(2, 4)).sum())
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        rank = dist.get_rank()
        model = DistributedDataParallel(torch.nn.BatchNorm1d(4))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(8, 4) * (1 + rank)).square().mean().backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            print(model(torch.ones(2, 4)).sum())
        dist.destroy_process_group()
    """
    for each in trace.once(own_statistics):
        used = len(each.evaluated) > 1
        yield Found(
            message=_message(each, used=used),
            site=each.made_at,
            evidence=(),
            why="DistributedDataParallel(broadcast_buffers=False) leaves each rank the statistics "
            "of its own batches",
            fix="leave out broadcast_buffers=False, convert the model with "
            "SyncBatchNorm.convert_sync_batchnorm, or average the statistics before evaluation",
            certainty=Certainty.INFERRED,
            severity=Severity.WARNING if used else None,
        )


def _message(each: OwnStatistics, *, used: bool) -> str:
    norms = ", ".join(f"{norm:.4g} on rank {rank}" for rank, norm in each.norms.items())
    more = f" (and {each.many - 1} more)" if each.many > 1 else ""
    then = ""
    if used:
        then = f", and {listed(each.evaluated)} evaluate with them{at(each.evaluated_at)}"
    return (
        f"Running statistics of {each.path}{more} differ in step {each.step}: the norm of the "
        f"variance is {norms}{then}"
    )
