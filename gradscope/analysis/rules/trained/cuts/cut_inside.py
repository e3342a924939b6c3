"""The rule about forwards that use `.data` and so lose all that they computed before."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.graph.unreached import IdleGraphs
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, ActFacts, CutAct, GraphTask
from gradscope.trace.trace import Trace


@rule("GS416", "cut-inside", reads=("act",))
def cut_inside(trace: Trace) -> Iterator[Found]:
    """A forward continues with `.data`: nothing that it computed before gets a gradient.

    Parameters that are used again after it, such as tied weights, still get a gradient, so none
    seems to be missing. To stop gradients on purpose, write `.detach()`.

    Bad:
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Parameter(torch.full((2, 3), 0.2))
            def forward(self, x):
                code = torch.tanh(x @ self.a.t())
                code = code.data
                return code @ self.a
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (model(torch.ones(4, 3)) - 1).pow(2).mean().backward()
            optimizer.step()

    Good:
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a = torch.nn.Parameter(torch.full((2, 3), 0.2))
            def forward(self, x):
                code = torch.tanh(x @ self.a.t())
                return code @ self.a
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (model(torch.ones(4, 3)) - 1).pow(2).mean().backward()
            optimizer.step()
    """
    training = trace.once(Training)
    cuts = [act for act in training.acts.of(CutAct) if act.facts.by == "data"]
    cuts = [act for act in cuts if act.inside != NONE and act.task == NONE]
    cuts = [act for act in cuts if not _is_of_a_leaf(training, act)]
    lines = grouped(cuts, lambda act: act.stack)
    if not lines:
        return
    begins = np.sort(trace.table(GraphTask)["begin"])
    graphs = trace.once(IdleGraphs)
    for acts in lines.values():
        lost = {tensor for act in acts for tensor in act.tensors} & training.reached
        if len(acts) > 1 and lost and all(_loses_all(graphs, begins, act) for act in acts):
            yield _found(training, acts, lost)


def _is_of_a_leaf(training: Training, act: Done[ActFacts]) -> bool:
    """Whether the `.data` that the line reads is that of a parameter, which has no graph."""
    names = [training.name(each).rpartition(".")[2] for each in act.tensors]
    text = training.acts.site(act).text
    return len(names) == 1 and re.search(rf"\b{re.escape(names[0])}\.data\b", text) is not None


def _loses_all(graphs: IdleGraphs, begins: np.ndarray, act: Done[ActFacts]) -> bool:
    """Whether the forward before it leads to no loss, and continues after it."""
    own = np.flatnonzero(graphs.thread == act.thread)
    place = int(np.searchsorted(graphs.t[own], act.t))
    if not 0 < place < len(own) or not graphs.reached[own[place]]:
        return False
    before = graphs.reached[own[:place]]
    since = int(np.flatnonzero(before)[-1]) if before.any() else -1
    if since == place - 1:
        return False
    after = int(graphs.t[own[since]]) if since >= 0 else -1
    until = int(graphs.t[own[since + 1]])
    return since < 0 or bool(((begins > after) & (begins < until)).any())


def _found(training: Training, acts: list[Done[CutAct]], lost: set[int]) -> Found:
    act, site = acts[0], training.acts.site(acts[0])
    code = code_of(site.text)
    write = f"write `{code.replace('.data', '')}`" if ".data" in code else "remove `.data`"
    return Found(
        message=f"Nothing that the forward computed before{at(site)} gets a gradient: it continues "
        f"with `.data`, {len(acts)} times",
        site=site,
        evidence=(Evidence("act", act.id),),
        why=f"no backward reached any node created before that line; {training.named(lost)} "
        "got a gradient only through what is computed after it",
        fix=f"{write}; to stop gradients there on purpose, use `.detach()`",
        certainty=Certainty.INFERRED,
    )
