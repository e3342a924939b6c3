"""The rule about parameters that not all ranks use. It reads the merged trace of several ranks."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.training import Training
from gradscope.analysis.ranks.training.searched import needless_searches
from gradscope.analysis.ranks.training.unused import UnusedOnSome, unused_on_some
from gradscope.analysis.ranks.whose import endings, listed
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import GraphTask
from gradscope.trace.trace import Trace

UNFINISHED = "Expected to have finished reduction"
"""Part of the error of DistributedDataParallel about parameters without a gradient."""

AVERAGED = (
    "DistributedDataParallel needs a gradient of each parameter from all ranks: it takes zeros "
    "for them with find_unused_parameters=True, and otherwise waits or raises an error"
)


@rule(
    "GS005", "unused-on-some-ranks", Severity.NOTE, reads=("replicated", "accumulate"), across=True
)
def unused_on_some_ranks(trace: Trace) -> Iterator[Found]:
    """Parameters got a gradient on some ranks of DistributedDataParallel, and none on others.

    In the steps that are named, the loss of a rank did not depend on them. The finding names the
    branch at which the ranks parted, or the cut. With `find_unused_parameters=True` this may be
    intended, for example for experts or for tasks that differ between ranks, and it is a note. It
    is a warning if DistributedDataParallel has raised an error because of it.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        class Net(torch.nn.ModuleList):
            def forward(self, x, scaled):
                out = self[0](x)
                if scaled:
                    out = out * self[1](x)
                return out

        dist.init_process_group("gloo")
        net = Net(torch.nn.Linear(4, 2) for _ in range(2))
        model = DistributedDataParallel(net, find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(8, 4), scaled=dist.get_rank() == 0).square().mean().backward()
        optimizer.step()
        dist.destroy_process_group()

    Good:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel

        class Net(torch.nn.ModuleList):
            def forward(self, x, scaled):
                out = self[0](x)
                if scaled:
                    out = out * self[1](x)
                return out

        dist.init_process_group("gloo")
        net = Net(torch.nn.Linear(4, 2) for _ in range(2))
        model = DistributedDataParallel(net, find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.randn(8, 4), scaled=True).square().mean().backward()
        optimizer.step()
        dist.destroy_process_group()
    """
    ended = endings(trace)
    for unused in trace.once(unused_on_some):
        raised = any(UNFINISHED in ended.get(rank, "") for rank in unused.ranks)
        yield _found(unused, Severity.WARNING if raised else Severity.NOTE)


def _found(unused: UnusedOnSome, severity: Severity) -> Found:
    return Found(
        message=_message(unused),
        site=unused.cause.site if unused.cause.site.place else unused.used_at,
        evidence=(
            Evidence(GraphTask.TABLE, unused.task),
            *few_tensors(unused.part.trace, unused.tensors),
        ),
        why=f"{unused.cause.words}; {AVERAGED}",
        fix="if it is not intended, make the condition the same on all ranks, or let each "
        "rank's loss depend on all parameters",
        certainty=Certainty.INFERRED,
        severity=severity,
        parameters=frozenset(unused.tensors),
    )


def _message(unused: UnusedOnSome) -> str:
    names = unused.part.trace.once(Training).named(unused.tensors)
    steps = f"step {unused.step}"
    if unused.steps > 1:
        steps = f"{unused.steps} of {unused.of} steps (the first: {unused.step})"
    it = "it" if len(unused.tensors) == 1 else "them"
    used = f"{listed(unused.others)} used {it}{at(unused.used_at)}"
    return f"{names} got no gradient on {listed(unused.ranks)} in {steps}, and {used}"


@rule(
    "GS025",
    "needless-search",
    Severity.WARNING,
    reads=("replicated.searches", "accumulate", "source"),
    steps="each",
    across=True,
)
def needless_search(trace: Trace) -> Iterator[Found]:
    """DistributedDataParallel looks for unused parameters in each step, and there are none.

    With `find_unused_parameters=True` each forward ends with a walk through the graph. Reported if
    each of at least five backwards of all ranks reached all parameters, and if no line that made
    their graphs is in a branch, or may be skipped by one: so later steps use all parameters, too.

    Bad:
        import torch.distributed as dist
        from torch.nn.parallel import DistributedDataParallel
        dist.init_process_group("gloo")
        torch.manual_seed(dist.get_rank())
        model = DistributedDataParallel(torch.nn.Linear(4, 2), find_unused_parameters=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(6):
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
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
        dist.destroy_process_group()
    """
    for each in trace.once(needless_searches):
        yield Found(
            message="DistributedDataParallel looks for unused parameters in each step"
            f"{at(each.site)}, and there were none in {each.backwards} backwards of all ranks",
            site=each.site,
            evidence=few_tensors(each.part.trace, each.parameters),
            why="each forward ends with a walk through the graph; no branch of the program leaves "
            "out what these graphs were made by",
            fix="leave out find_unused_parameters=True",
            certainty=Certainty.INFERRED,
        )
