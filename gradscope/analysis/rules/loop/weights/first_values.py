"""Rules about values that modules hold when they first run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.modes import Modes
from gradscope.analysis.program.modules import module_names
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.loop.words import line
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import READS
from gradscope.trace.schema import INITIAL_STATISTICS, PADDING_FILLED, FilledAct, RanAct, Version
from gradscope.trace.trace import Trace

ADDS = frozenset(("sum", "mean"))
UPDATES = 2
"""Least number of updates of a copy: it may be filled once on purpose."""


@rule("GS921", "padding-filled", reads=(*READS, "node.arguments", "act"))
def padding_filled(trace: Trace) -> Iterator[Found]:
    """The padding row of an embedding was filled with random numbers, which are then summed.

    `nn.Embedding(padding_idx=0)` sets that row to zeros when it is created, and no gradient reaches
    it. A function of nn.init that fills the whole weight also fills this row, for good. Only
    embeddings whose vectors are summed or averaged over positions without a mask are reported.

    Bad:
        words, head = torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Linear(4, 1)
        torch.nn.init.normal_(words.weight)
        text = torch.tensor([[3, 4, 0, 0], [5, 2, 7, 0]])
        head(words(text).sum(1)).pow(2).mean().backward()

    Good:
        words, head = torch.nn.Embedding(9, 4, padding_idx=0), torch.nn.Linear(4, 1)
        torch.nn.init.normal_(words.weight)
        with torch.no_grad():
            words.weight[0].zero_()
        text = torch.tensor([[3, 4, 0, 0], [5, 2, 7, 0]])
        head(words(text).sum(1)).pow(2).mean().backward()
    """
    calls, training, modes = trace.once(Calls), trace.once(Training), trace.once(Modes)
    ran = {act.module: act for act in training.acts.of(RanAct) if act.facts.found == PADDING_FILLED}
    fills = {tensor: act for act in training.acts.of(FilledAct) for tensor in act.tensors}
    lines = calls.few_of_each_line(calls.with_tensors("embedding")) if ran else ()
    for lookup in (each for few, _ in lines for each in few):
        act = ran.get(int(calls.ops["module"][lookup]))
        row = modes.modules.get(act.module) if act is not None else None
        fill = fills.get(row.parameters[0]) if row is not None and row.parameters else None
        added = [
            each for each in calls.trained_users(calls.outputs(lookup)[0]) if _adds(calls, each)
        ]
        if act is None or row is None or fill is None or not added or fill.t > act.t:
            continue
        del ran[act.module]
        site, by = training.acts.site(fill), fill.facts.by
        yield Found(
            message=f"The padding row of {training.named(row.parameters[:1])} is not zero: {by}()"
            f"{at(site)} filled it, and {calls.name(added[0])}(){at(calls.site(added[0]))} adds it "
            "for each padded position",
            site=site,
            evidence=(
                *(Evidence("act", each.id) for each in (fill, act)),
                Evidence("op", calls.id(added[0])),
            ),
            why="nn.Embedding sets the row of padding_idx to zeros once, and no gradient reaches "
            "it: it keeps these random numbers, and results depend on the amount of padding",
            fix=f"after {line(site, by + '(…)')}, under `torch.no_grad()`, write "
            "`embedding.weight[embedding.padding_idx].zero_()`",
            certainty=Certainty.INFERRED,
        )


def _adds(calls: Calls, at: int) -> bool:
    """Whether a call adds up vectors of several positions."""
    dims, shape = calls.dims(at), calls.shape(calls.inputs(at)[0])
    return calls.name(at) in ADDS and len(shape) > 2 and dims == (len(shape) - 2,)


@rule("GS922", "statistics-not-averaged", reads=("act",))
def statistics_not_averaged(trace: Trace) -> Iterator[Found]:
    """A copy of a model whose parameters are updated ran with batch norm's initial statistics.

    `parameters()` has no buffers. An average of the weights (EMA) that goes over parameters only
    leaves the running mean at 0 and the running variance at 1, and uses these in eval mode.

    Bad:
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        average = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4)).eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters()):
                    a.lerp_(p, 0.1)
        with torch.no_grad():
            average(torch.rand(3, 2))

    Good:
        model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4))
        average = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.BatchNorm1d(4)).eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.rand(3, 2)).pow(2).mean().backward()
            optimizer.step()
            with torch.no_grad():
                for a, p in zip(average.parameters(), model.parameters()):
                    a.lerp_(p, 0.1)
                for a, b in zip(average.buffers(), model.buffers()):
                    a.copy_(b)
        with torch.no_grad():
            average(torch.rand(3, 2))
    """
    training, modes = trace.once(Training), trace.once(Modes)
    ran = [act for act in training.acts.of(RanAct) if act.facts.found == INITIAL_STATISTICS]
    steps = [act.t for each in training.stepped for act in each.steps]
    for root, acts in grouped(ran, lambda act: modes.root(act.module)).items():
        own = modes.parameters(modes.inside(root)) - training.held - training.reached
        writes = _writes(trace, own, min(steps, default=acts[0].t), acts[0].t)
        if len(writes) >= UPDATES:
            yield _not_averaged(training, acts, own, writes[-1])


def _writes(trace: Trace, tensors: frozenset[int], first: int, last: int) -> list[int]:
    """The stacks of the writes to one of these tensors in a period: the most of any."""
    versions = trace.table(Version)
    inside = (versions["t"] > first) & (versions["t"] < last)
    inside &= np.isin(versions["tensor"], list(tensors))
    written, stacks = versions["tensor"][inside], versions["stack"][inside]
    several = (stacks[written == each].tolist() for each in np.unique(written))
    return max(several, key=len, default=[])


def _not_averaged(
    training: Training, acts: list[Done[RanAct]], own: frozenset[int], write: int
) -> Found:
    trace, site, act = training.trace, site_of(training.trace, write), acts[0]
    name = trace.once(module_names).get(act.module, "")
    more = f" and {len(acts) - 1} more" if len(acts) > 1 else ""
    return Found(
        message=f"Batch norm of a copy has its initial statistics, mean 0 and variance 1, when it "
        f"runs in eval mode{at(training.acts.site(act))}: the updates{at(site)} write to "
        f"parameters only, not to the buffers of `{name}`{more}",
        site=site,
        evidence=(
            *(Evidence("act", each.id) for each in acts[:3]),
            *few_tensors(trace, own),
        ),
        why="running_mean and running_var are buffers; the copy normalizes by 0 and 1, and the "
        "model whose parameters it averages by the statistics of the data",
        fix="copy the buffers in the same update: `for a, b in zip(average.buffers(), "
        "model.buffers()): a.copy_(b)`",
        certainty=Certainty.INFERRED,
    )
