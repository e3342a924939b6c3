"""Rules about samples and choices, through which no gradient passes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import at, site_of
from gradscope.analysis.lookups import grouped
from gradscope.analysis.program.acts import Acts, Done, Origins
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of, instead, rewritten
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.forwards import LookedUp, looked_up
from gradscope.analysis.rules.training import explained, never_reached
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, CameInAct, CutAct, Frame, GradOffAct, GraphTask
from gradscope.trace.trace import Trace

NAME = re.compile(r"^(?:self\.)?(\w+)\s*=[^=]")
DRAWN = re.compile(r"([\w.]+)\.sample(?:_n)?\(")
SAMPLES = ("sample", "sample_n")
SUMMED = SAME_NUMBERS - {"select", "slice", "split", "chunk", "narrow", "expand"} | {
    "add", "add_", "sub", "sub_", "rsub", "neg", "mean", "sum",
}  # fmt: skip
"""Calls that leave each value its weight."""

STEPS = 2
"""In how many steps a loss must contain `log_prob` in the same way."""


@rule("GS415", "sample-cuts", reads=("act",))
def sample_cuts(trace: Trace) -> Iterator[Found]:
    """A network uses `sample()` of a learned distribution, not `rsample()`.

    The loss then gives the distribution's parameters no gradient through the sample. Other terms
    (such as a divergence) may still train them. A program that weighs `log_prob` of the sample,
    as REINFORCE does, means it, and is not reported. It is reported if each sample has the same
    weight: the mean of the gradients of `log_prob` is then 0.

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
        if not _is_weighed(trace, training.acts.site(acts[0]).text):
            if is_used:
                yield _found(training, acts)
        elif (averaged := _averaged(training, acts)) is not None:
            yield averaged


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


def _averaged(training: Training, acts: list[Done[GradOffAct]]) -> Found | None:
    """A finding if losses contain `log_prob` of the sample with the same weight for each sample."""
    calls, site = training.trace.once(Calls), training.acts.site(acts[0])
    name, drawn = NAME.match(code_of(site.text)), DRAWN.search(site.text)
    if not name or not drawn:
        return None
    of = rf"\w+ = {re.escape(drawn[1])}\.log_prob\({name[1]}\)(\.(sum|mean)\([^()]*\))*"
    its = [
        each
        for each in distinct(calls.ops["stack"]).tolist()
        if (line := site_of(training.trace, each)).file == site.file
        and line.line > site.line
        and re.fullmatch(of, code_of(line.text))
    ]
    places = np.flatnonzero(np.isin(calls.ops["stack"], its) & calls.is_forward).tolist()
    learned = [at for at in places if any(map(calls.needs_grad, calls.outputs(at)))]
    if not any(calls.name(at) == "pow" for at in learned):
        return None  # not a normal distribution: with limits that are learned, the mean is not 0
    by_step = grouped(learned, lambda at: int(calls.ops["step"][at]))
    means = [_mean_of(calls, by_step[step]) for step in {act.step for act in acts} & {*by_step}]
    read = [each for each in means if each and not any(map(math.isnan, each.factors))]
    alike = len({each.factors for each in read}) == 1
    if None in means or len(read) < STEPS or not alike:
        return None
    return _same_weight(training, acts[0], learned[0], read[0].at)


@dataclass(frozen=True, slots=True)
class _Mean:
    """The call that returned a loss, and the constant factors on the way to it."""

    at: int
    factors: tuple[float, ...]  # NaN: a number that was not read


def _mean_of(calls: Calls, made: list[int]) -> _Mean | None:
    """The loss to which the calls of a line lead, if each value has the same weight in it."""
    inside, ends, factors = {*made}, set[int](), list[float]()
    waiting, seen = [*made], {*made}
    while waiting:
        at = waiting.pop()
        after = {one for each in calls.outputs(at) for one in calls.trained_users(each)} - {at}
        ends |= {at} - inside if not after else set()
        for each in sorted(after - seen):
            factor = _factor(calls, each, seen)
            if factor is None:
                return None
            factors.append(factor)
        waiting += after - seen
        seen |= after
    roots = {*calls.trace.table(GraphTask).ragged("roots").values.tolist()}
    is_loss = len(ends) == 1 and {int(calls.ops["node"][at]) for at in ends} <= roots
    return _Mean(ends.pop(), tuple(factors)) if is_loss else None


def _factor(calls: Calls, at: int, before: set[int]) -> float | None:
    """The constant by which a call multiplies each value; None: not known to be one."""
    name, others = calls.name(at), [e for e in calls.inputs(at) if calls.maker(e) not in before]
    if name not in ("mul", "div"):
        return 1.0 if name in SUMMED else None
    if isinstance(given := calls.given(at).get("other"), int | float):
        return float(given)
    if len(others) != 1:
        return None
    if _is_one_number(calls, others[0]):
        return 1.0
    return math.nan if calls.shape(others[0]) == () and not calls.given(at) else None


def _is_one_number(calls: Calls, tensor: int) -> bool:
    """Whether a tensor is computed from parameters of one element only, as a temperature is."""
    at, acts = calls.maker(tensor), calls.trace.once(Acts)
    came = calls.trace.once(Origins).of(tensor)
    if at != NONE:
        leaves = {each for each in calls.sources(at) if calls.maker(each) == NONE}
    elif came is not None and came.by == "detach":
        cut = (act for act in acts.of(CutAct) if acts.place(act) == came.site.place)
        leaves = {each for act in cut for each in act.tensors}
    else:
        return False
    learned = {each for each in leaves if calls.needs_grad(each)}
    return bool(learned) and all(math.prod(calls.shape(each)) == 1 for each in leaves)


def _same_weight(training: Training, act: Done[GradOffAct], weighed: int, loss: int) -> Found:
    calls, site, by = training.trace.once(Calls), training.acts.site(act), act.facts.by
    better = code_of(site.text).replace(f".{by}(", ".rsample(")
    return Found(
        message=f"{by}(){at(site)} cuts the graph: the loss{at(calls.site(loss))} contains "
        f"log_prob of the sample, computed{at(calls.site(weighed))}, with the same weight for each "
        "sample, and the mean of such gradients is 0",
        site=site,
        evidence=(
            Evidence("act", act.id),
            Evidence("op", calls.id(weighed)),
            Evidence("op", calls.id(loss)),
        ),
        why="the sample has no graph, so that a loss computed with it trains nothing before it; "
        "log_prob trains only if it is multiplied by a value of each sample, as in REINFORCE",
        fix=instead(better, site.text) if better != code_of(site.text) else "draw with rsample()",
        certainty=Certainty.INFERRED,
        rewrite=rewritten(site, better, "the loss will train the distribution through the sample"),
    )


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
