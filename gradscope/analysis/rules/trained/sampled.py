"""Rules about samples and choices, through which no gradient passes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Done
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of, instead, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.forwards import LookedUp, looked_up
from gradscope.analysis.rules.training import explained, never_reached
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import CameInAct, Frame, GradOffAct
from gradscope.trace.trace import Trace

NAME = re.compile(r"^(?:self\.)?(\w+)\s*=[^=]")
SAMPLES = ("sample", "sample_n")


@rule("GS415", "sample-cuts", reads=("act",))
def sample_cuts(trace: Trace) -> Iterator[Found]:
    """A network uses `sample()` of a learned distribution, not `rsample()`.

    The loss then gives the distribution's parameters no gradient through the sample. Other terms
    (such as a divergence) may still train them. A program that uses `log_prob` of the sample does
    so on purpose, and is not reported.

    Bad:
        encoder, decoder = torch.nn.Linear(3, 2), torch.nn.Linear(2, 3)
        optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
        for _ in range(2):
            drawn = torch.distributions.Normal(encoder(torch.ones(4, 3)), torch.ones(4, 2))
            z = drawn.sample()
            loss = decoder(z).pow(2).mean() + drawn.loc.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    Good:
        encoder, decoder = torch.nn.Linear(3, 2), torch.nn.Linear(2, 3)
        optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
        for _ in range(2):
            drawn = torch.distributions.Normal(encoder(torch.ones(4, 3)), torch.ones(4, 2))
            z = drawn.rsample()
            loss = decoder(z).pow(2).mean() + drawn.loc.pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    training = trace.once(Training)
    off = (act for act in training.acts.of(GradOffAct) if act.facts.learned)
    drawn = grouped((act for act in off if act.facts.by in SAMPLES), training.acts.place)
    missing = never_reached(training) if drawn else set()
    if not drawn or not training.stepped or missing & explained(training, missing):
        return  # GS401 reports these
    used = {training.acts.place(act) for act in training.acts.of(CameInAct)}
    for place, acts in drawn.items():
        is_used = place in used or _is_taken(trace, place)
        if is_used and not _is_weighed(trace, training.acts.site(acts[0]).text):
            yield _found(training, acts)


def _is_taken(trace: Trace, place: str) -> bool:
    """Whether a trained call uses the result of a call on this line."""
    calls = trace.once(Calls)
    stacks = distinct(calls.ops["stack"]).tolist()
    its = [each for each in stacks if site_of(trace, each).place == place]
    found = np.flatnonzero(np.isin(calls.ops["stack"], its) & calls.is_forward)
    return any(calls.trained_users(out) for each in found.tolist() for out in calls.outputs(each))


def _is_weighed(trace: Trace, text: str) -> bool:
    """Whether the program uses `log_prob` of the sample drawn on this line, or may."""
    name = NAME.match(code_of(text))
    weighs = re.compile(rf"log_prob\(.*\b{name[1]}\b" if name else r"log_prob\(")
    return any(weighs.search(each.text) for each in trace.rows(Frame))


def _found(training: Training, acts: list[Done[GradOffAct]]) -> Found:
    act, by = acts[0], acts[0].facts.by
    site = training.acts.site(act)
    again = f", {len(acts)} times" if len(acts) > 1 else ""
    better = code_of(site.text).replace(f".{by}(", ".rsample(")
    return Found(
        message=f"{by}(){at(site)} cuts the graph{again}: a loss computed with the sample trains "
        "nothing before it",
        site=site,
        evidence=(Evidence("act", act.id),),
        why="parameters of the distribution require grad, a sample is drawn under no_grad(), and "
        "the program does not use its log_prob",
        fix=instead(better, site.text) if better != code_of(site.text) else "draw with rsample()",
        certainty=Certainty.INFERRED,
        rewrite=rewritten(site, better, "the loss will train the distribution through the sample"),
    )


@rule("GS419", "no-straight-through", reads=("act", "op", "op.inputs", "tensor"))
def no_straight_through(trace: Trace) -> Iterator[Found]:
    """A decoder uses the nearest rows of a codebook, so its loss does not reach the encoder.

    The nearest row is chosen by argmin, which has no derivative. In a VQ-VAE, the straight-through
    estimator passes the gradient of the row on to the encoder's output: `z + (q - z).detach()`.

    Bad:
        encoder, decoder = torch.nn.Linear(3, 2), torch.nn.Linear(2, 3)
        book = torch.nn.Embedding(4, 2)
        every = [*encoder.parameters(), *decoder.parameters(), *book.parameters()]
        optimizer = torch.optim.SGD(every, lr=0.1)
        for _ in range(2):
            z = encoder(torch.ones(5, 3))
            chosen = torch.cdist(z, book.weight).argmin(1)
            q = book(chosen)
            loss = decoder(q).pow(2).mean() + (z - q.detach()).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    Good:
        encoder, decoder = torch.nn.Linear(3, 2), torch.nn.Linear(2, 3)
        book = torch.nn.Embedding(4, 2)
        every = [*encoder.parameters(), *decoder.parameters(), *book.parameters()]
        optimizer = torch.optim.SGD(every, lr=0.1)
        for _ in range(2):
            z = encoder(torch.ones(5, 3))
            chosen = torch.cdist(z, book.weight).argmin(1)
            q = book(chosen)
            loss = decoder(z + (q - z).detach()).pow(2).mean()
            loss = loss + (z - q.detach()).pow(2).mean() + (z.detach() - q).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    training, calls = trace.once(Training), trace.once(Calls)
    for each in looked_up(trace):
        behind = each.behind(calls) & training.held
        if behind:
            yield _not_through(training, calls, each, behind)


def _not_through(training: Training, calls: Calls, rows: LookedUp, behind: set[int]) -> Found:
    site, chosen = calls.site(rows.at), training.acts.site(rows.choice)
    name = NAME.match(code_of(site.text))
    q = name[1] if name else "q"
    return Found(
        message=f"No straight-through: the rows looked up at {site}, by argmin(){at(chosen)}, go "
        f"directly into a layer at {calls.site(rows.layer)}, so its loss does not reach "
        f"{training.named(behind)}",
        site=site,
        evidence=(Evidence("op", calls.id(rows.at)), Evidence("act", rows.choice.id)),
        why="argmin has no derivative, and the rows have a graph to the table only; the tensor "
        "they are nearest to is trained by other terms of the loss, if at all",
        fix=f"pass `z + ({q} - z).detach()` to the layer, with z the tensor they are nearest to",
        certainty=Certainty.INFERRED,
    )
