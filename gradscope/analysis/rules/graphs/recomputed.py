"""Rules about forwards that are recomputed, and what differs the second time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.loop import Loop
from gradscope.analysis.program.modes import Modes
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of, instead, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, ActFacts, CheckpointAct, Op, RecomputeAct
from gradscope.trace.trace import Trace

NOT_KEPT = "preserve_rng_state=False"
OTHERS = {"random": "Python's random", "numpy": "numpy.random"}
"""Generators whose state a checkpoint never restores."""


@rule("GS916", "recompute-differs", reads=("act",))
def recompute_differs(trace: Trace) -> Iterator[Found]:
    """A checkpoint's recompute is not its forward: other random numbers, calls or weights.

    Random numbers differ with preserve_rng_state=False, and always with Python's or NumPy's own
    generators, whose state a checkpoint does not restore. Calls differ if a branch depends on
    something that has changed, such as a counter. Weights differ if an optimizer steps before the
    backward. PyTorch compares only the number, shape and dtype of what is saved. Calls are compared
    in recordings of PyTorch with machine code, if the forward ran with use_reentrant=False.

    Bad:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
        x = torch.ones(3, 2, requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(
            model, x, use_reentrant=False, preserve_rng_state=False
        )
        y.sum().backward()

    Good:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
        x = torch.ones(3, 2, requires_grad=True)
        y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
        y.sum().backward()
    """
    loop = trace.once(Loop)
    modes = trace.once(Modes)
    told: set[int] = set()
    for act in loop.acts.of(CheckpointAct):
        if act.stack in told:
            continue
        drew = act.facts.drew
        others = [OTHERS[each] for each in drew if each in OTHERS]
        if not act.facts.keeps_random:
            inside = _dropouts_inside(loop, modes, act)
            if inside or "torch" in drew:
                told.add(act.stack)
                yield _not_kept(loop, modes, act, inside)
        elif others:
            told.add(act.stack)
            yield _of_others(loop, act, others)
    for again in loop.acts.of(RecomputeAct):
        yield _of_weights(loop, again) if again.tensors else _of_calls(loop, again)


def _of_calls(loop: Loop, act: Done[RecomputeAct]) -> Found:
    site, facts = loop.acts.site(act), act.facts
    line = _line_of(loop.acts.trace, facts.begin)
    forward = f"called {facts.forward}{at(line)}" if facts.forward else "had ended"
    again = f"calls {facts.recompute}" if facts.recompute else "has ended"
    return Found(
        message=f"a recompute differs from the forward: where the forward of the checkpoint"
        f"{at(site)} {forward}, its recompute {again}",
        site=line if line.place else site,
        evidence=(Evidence("act", act.id),),
        why="the backward then computes the gradient of another function than the one that "
        "returned the loss; PyTorch compares only the number, shape and dtype of what is saved",
        fix="make the forward depend only on its arguments and weights; compute what decides "
        "about a branch before the checkpoint, and pass it",
    )


def _of_weights(loop: Loop, act: Done[RecomputeAct]) -> Found:
    trace, site = loop.acts.trace, loop.acts.site(act)
    weights = trace.once(Training).named(act.tensors)
    return Found(
        message=f"a recompute differs from the forward: {weights} changed after the forward of the "
        f"checkpoint{at(site)} and before its recompute",
        site=site,
        evidence=(Evidence("act", act.id),),
        why="the recompute ran with other weights than the forward that returned the loss",
        fix="call backward() before optimizer.step(), or before the weights are written otherwise",
    )


def _line_of(trace: Trace, begin: int) -> Site:
    """The line of the call that began then, or of the last one before it that is recorded."""
    table = trace.table(Op)
    begins = np.where(table["stack"] == NONE, np.iinfo(np.int64).max, table["begin"])
    before = np.flatnonzero(begins <= begin)
    if not begin or not len(before):
        return Site()
    return site_of(trace, int(table["stack"][before[np.argmax(begins[before])]]))


def _not_kept(loop: Loop, modes: Modes, act: Done[ActFacts], inside: list[int]) -> Found:
    site, what = loop.acts.site(act), "a function that draws random numbers"
    if inside:
        row = modes.modules[inside[0]]
        what = f"{row.type} ({row.path})" if row.path else row.type
    plain = code_of(site.text)
    better = plain.replace(f", {NOT_KEPT}", "")
    return Found(
        message=f"a recompute differs from the forward: checkpoint{at(site)} with {NOT_KEPT} runs "
        f"{what} again with other random numbers",
        site=site,
        evidence=(Evidence("act", act.id),),
        why="the backward then computes the gradient of a forward that differs from that of the "
        "loss: "
        + (f"{len(inside)} modules drop at random" if inside else "its forward draws at random"),
        fix=instead(better, plain) if better != plain else f"remove `{NOT_KEPT}`",
        rewrite=rewritten(site, better),
    )


def _of_others(loop: Loop, act: Done[ActFacts], others: list[str]) -> Found:
    site = loop.acts.site(act)
    return Found(
        message=f"a recompute differs from the forward: the function that checkpoint{at(site)} "
        f"runs again draws random numbers from {' and '.join(others)}, and gets others the second "
        "time",
        site=site,
        evidence=(Evidence("act", act.id),),
        why="a checkpoint restores the state of torch's generator only, so the backward may "
        "compute the gradient of a forward that differs from that of the loss",
        fix="draw them with torch (`torch.rand(())`), or before the checkpoint",
        certainty=Certainty.INFERRED,
    )


def _dropouts_inside(loop: Loop, modes: Modes, checkpoint: Done[ActFacts]) -> list[int]:
    """Modules that drop at random, and were called by a checkpoint."""
    place = loop.acts.place(checkpoint)
    called = [
        act for (_, _, training), act in ((key, act) for key, act in modes.ran.items()) if training
    ]
    below = {
        each
        for act in called
        if any(site.place == place for site in loop.acts.sites(act))
        for each in modes.inside(act.module)
        if act.module != modes.root(act.module) or act.stack == checkpoint.stack
    }
    functional = {call.module for call in modes.dropouts}
    return sorted(
        each
        for each in below & modes.two_ways
        if "Drop" in modes.modules[each].type or each in functional
    )
