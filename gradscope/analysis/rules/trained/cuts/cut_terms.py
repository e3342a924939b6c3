"""Rules about terms of a loss that train nothing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.names import node_names
from gradscope.analysis.identity.sites import Site, at, site_of
from gradscope.analysis.lookups import Ids, Links, links
from gradscope.analysis.program.acts import Done, lines
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.own_line import code_of
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.cuts.constant_derivatives import constant_derivatives
from gradscope.analysis.source.files import InSource, SourceFiles
from gradscope.analysis.source.sums import Sum, Term, sums
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import NONE, CutAct, Edge, GraphTask, Node
from gradscope.trace.trace import Trace

SIGNS = "+-"
A_LOSS = re.compile(
    r"loss|penalt|reg|aux|cost|consist|entropy|recon|resid|pde|term|kl|nll|bce|mse", re.IGNORECASE
)
"""In names of values that are meant to train something."""

NOBODY: Ids = np.zeros(0, np.int64)
LINEAR = re.compile(r"(Add|Sub|Rsub|Neg|Mean|Sum|Mul|Div|Squeeze|View|Stack)Backward\d$")
"""Nodes through which a sum is passed on to a backward, so that each term keeps its weight."""

REMOVED = {"detach": ".detach()", "data": ".data"}
"""Only these are a warning: reading a number out is often intended."""

LAST = re.compile(r"\.(detach\(\)|data|item\(\)|numpy\(\)|tolist\(\))\W*$")
"""At the end of a term's expression: the graph was cut on purpose."""


CHOSEN = frozenset(("argmax", "argmin", "argsort"))
"""Functions whose results are no loss: the position of the largest, or an order."""


@rule("GS414", "cut-term", reads=("act", "edge", "source"))
def cut_term(trace: Trace) -> Iterator[Found]:
    """A term of a loss was computed only from a detached tensor: it adds no gradient.

    A term that is detached as a whole may be intended, for example for a log. The finding is then a
    note. A second derivative without a graph (create_graph=True is missing) is reported, too.

    Bad:
        body, value = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *value.parameters()], lr=0.1)
        for _ in range(2):
            out = value(body(torch.ones(3, 2)))
            main = out.sigmoid().mean()
            fit = torch.nn.functional.mse_loss(out.detach(), torch.zeros(3, 1))
            loss = main + 0.5 * fit
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

    Good:
        body, value = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD([*body.parameters(), *value.parameters()], lr=0.1)
        for _ in range(2):
            out = value(body(torch.ones(3, 2)))
            main = out.sigmoid().mean()
            fit = torch.nn.functional.mse_loss(out, torch.zeros(3, 1))
            loss = main + 0.5 * fit
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    training = trace.once(Training)
    cuts: dict[str, list[Done[CutAct]]] = defaultdict(list)  # by each of their lines
    terms = [
        _Term(each, term)
        for each in trace.once(SourceFiles).each(sums)
        for term in each.found.terms
    ]
    for act in training.acts.of(CutAct) if terms else ():
        if act.task == NONE and not training.reached.isdisjoint(act.tensors):
            for site in training.acts.sites(act):
                cuts[site.place].append(act)
    additions = _Additions(trace)
    told: set[str] = set()
    derived = _derivatives(trace)
    for term in terms:
        place = term.site.place
        acts, off = cuts.get(place), bool(term.its.off and A_LOSS.search(term.its.name))
        if place in told:
            continue
        node = additions.without(term) if acts or off else NONE
        if node != NONE:
            told.add(place)
            yield _found(training, term, acts, node) if acts else _off(training, term, node)
        elif derived and (node := additions.idle(term, training)) != NONE:
            told.add(place)
            yield _of_a_derivative(training, term, derived, node)
    yield from constant_derivatives(trace, told)


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of a sum in the program."""

    whole: InSource[Sum]
    its: Term

    @property
    def site(self) -> Site:
        """The line that computes the term."""
        return self.whole.file.site(self.its.line)


class _Additions:
    """Nodes of additions, by the lines of the program that created them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._nodes, self._edges = trace.table(Node), trace.table(Edge)
        self._known: dict[str, tuple[Ids, Ids]] | None = None

    def without(self, term: _Term) -> int:
        """The node that adds a term, if that never has a graph and the sum is reached; or NONE."""
        side, its = term.its.side, self._of(term)
        if not len(its):
            return NONE
        other_has_one = self._sent(its, 1 - side).all()
        if other_has_one and not self._sent(its, side).any() and self._is_walked(int(its[0])):
            return int(its[0])
        return NONE

    def idle(self, term: _Term, training: Training) -> int:
        """The node that adds a term which leads to leaves, none of them trained; or NONE."""
        side, its = term.its.side, self._of(term)
        both = [self._sent(its, each).all() for each in (side, 1 - side)]
        if not len(its) or not all(both) or not self._is_walked(int(its[0])):
            return NONE
        own, other = (
            self._trained_behind(int(its[0]), each, training) for each in (side, 1 - side)
        )
        return int(its[0]) if other and not own else NONE

    def _trained_behind(self, node: int, index: int, training: Training) -> bool:
        """Whether the gradient that a node sends to one side reaches an optimizer's parameter."""
        edges = self._edges
        its = (edges["node"] == node) & (edges["index"] == index) & (edges["next"] != NONE)
        following = self._trace.once(_following)
        waiting = edges["next"][its].tolist()
        seen = set(waiting)
        while waiting:
            each = waiting.pop()
            after = following.of(each)
            leaf = not len(after) and self._nodes.has(each)
            if leaf and training.held.intersection(self._nodes.row(each).inputs):
                return True
            waiting += [one for one in after if one not in seen]
            seen.update(after)
        return False

    def _of(self, term: _Term) -> Ids:
        """The nodes of a term's addition; none where there are others on that line."""
        if self._known is None:
            self._known = self._by_line()
        wanted = np.array([SIGNS.find(each) for each in term.whole.found.signs])
        nodes, signs = self._known.get(term.whole.site.place, (NOBODY, NOBODY))
        place = term.its.place
        if len(wanted) == 1 and place == 0:  # sum() adds on that line, too: the last is the loss
            last = np.isin(nodes, self._trace.table(GraphTask).ragged("roots").values)
            if last.any() and (signs[last] == wanted[0]).all():
                return nodes[last]
        times, rest = divmod(len(nodes), len(wanted) or 1)
        if rest or not times:
            return NOBODY
        if not np.array_equal(signs, np.tile(wanted, times)):
            return NOBODY
        return nodes[place :: len(wanted)]

    def _by_line(self) -> dict[str, tuple[Ids, Ids]]:
        """The additions that each line made, in order, and their signs."""
        names = distinct(self._nodes["name"]).tolist()
        signs = {each: SIGNS.index(sign) for each in names if (sign := self._sign(each))}
        places = np.flatnonzero(np.isin(self._nodes["name"], list(signs)))
        places = places[np.lexsort((self._nodes["t"][places], self._nodes["stack"][places]))]
        stacks = self._nodes["stack"][places]
        found: dict[str, tuple[Ids, Ids]] = {}
        for group in np.split(places, np.flatnonzero(np.diff(stacks)) + 1) if len(places) else ():
            line = site_of(self._trace, int(self._nodes["stack"][group[0]])).place
            its = np.array([signs[each] for each in self._nodes["name"][group].tolist()])
            found.setdefault(line, (self._nodes["id"][group], its))
        return found

    def _sign(self, name: int) -> str:
        return {"AddBackward0": "+", "SubBackward0": "-"}.get(self._trace.text(name), "")

    def _sent(self, nodes: Ids, index: int) -> NDArray[np.bool_]:
        """Whether each of these nodes sends a gradient to that side."""
        edges = self._edges
        sends = (edges["index"] == index) & (edges["next"] != NONE)
        return np.isin(nodes, edges["node"][sends])

    def _is_walked(self, node: int) -> bool:
        """Whether a backward reached it through sums, means and factors only."""
        tasks, step = self._trace.table(GraphTask), self._nodes.row(node).step
        roots = tasks.ragged("roots")
        following = self._trace.once(_following)
        return any(
            self._leads(roots[each].tolist(), node, following)
            for each in np.flatnonzero(tasks["step"] == step).tolist()
        )

    def _leads(self, waiting: list[int], node: int, following: Links) -> bool:
        seen = set(waiting)
        while waiting:
            each = waiting.pop()
            if each == node:
                return True
            name = self._nodes.row(each).name if self._nodes.has(each) else ""
            after = following.of(each)
            if LINEAR.match(name) and not (name[:3] in ("Mul", "Div") and len(after) > 1):
                waiting += [one for one in after if one not in seen]
                seen.update(after)
        return False


def _following(trace: Trace) -> Links:
    edges = trace.table(Edge)
    return links(edges["node"], edges["next"])


def _derivatives(trace: Trace) -> list[int]:
    """Lines that compute a gradient without create_graph, by their stacks."""
    tasks = trace.table(GraphTask)
    its = ~tasks["accumulate_grad"] & ~tasks["create_graph"] & (tasks["parent"] == NONE)
    found: list[int] = distinct(tasks["stack"][its]).tolist()
    return found


def _off(training: Training, term: _Term, node: int) -> Found:
    """A term that was computed under no_grad."""
    site, added = term.site, term.whole.site
    line = f"{site.place.rpartition(':')[0]}:{term.its.off}"
    return Found(
        message=f"`{term.its.name}`, computed{at(site)}, has no graph and trains nothing: it is "
        f"computed under the no_grad() at {line}, so the sum{at(added)} adds a constant",
        site=site,
        evidence=(Evidence("node", node), term.whole.evidence),
        why=f"{node_names(training.trace).title(node)}{at(added)} has no edge on that side; the "
        f"other side is trained; gradients are off from {line} on",
        fix=f"compute it outside the block that begins at {line}",
        certainty=Certainty.INFERRED,
    )


def _of_a_derivative(training: Training, term: _Term, derived: list[int], node: int) -> Found:
    """A term whose derivative is a constant to the backward."""
    site, added = term.site, term.whole.site
    trace = training.trace
    inner, *outer = list(dict.fromkeys(lines(trace, derived[0])))
    called = f", called{at(outer[0])}," if outer else ""
    name = term.its.name
    return Found(
        message=f"`{name}` of the sum{at(added)} trains no parameter: the gradient taken{at(inner)}"
        f"{called} has no graph (create_graph=True is missing)",
        site=inner,
        evidence=(Evidence("node", node), term.whole.evidence),
        why=f"the inputs of `{name}`{at(site)} lead to the tensor with respect to which the "
        "gradient was taken, and to no parameter of an optimizer; the other terms do",
        fix="pass create_graph=True to `autograd.grad` there, so that a loss of the gradient "
        "trains",
        certainty=Certainty.INFERRED,
    )


def _found(training: Training, term: _Term, acts: list[Done[CutAct]], node: int) -> Found:
    site, added = term.site, term.whole.site
    act = min(acts, key=lambda each: training.acts.site(each) != site)  # of this line itself
    cut, name = training.acts.site(act), term.its.name
    what = f"`{name}`, computed{at(site)}," if name else f"A term{at(site)}"
    by = act.facts.by
    elsewhere = "" if cut == site else f"{at(cut)}"
    lost = set(act.tensors) & training.reached
    by_mistake = by in REMOVED or (by in CHOSEN and A_LOSS.search(name))
    meant = bool(LAST.search(code_of(site.text))) or not by_mistake
    return Found(
        message=f"{what} has no graph and trains nothing: {REMOVED.get(by, by)}{elsewhere} cut "
        f"it, so the sum{at(added)} adds a constant to the loss",
        site=site,
        evidence=(Evidence("act", act.id), Evidence("node", node), term.whole.evidence),
        why=f"{node_names(training.trace).title(node)}{at(added)} has no edge on that side; the "
        f"tensor that was cut was computed from {training.named(lost)}",
        fix=_uncut(site if elsewhere == "" else cut, by),
        certainty=Certainty.INFERRED,
        severity=Severity.NOTE if meant else None,
    )


def _uncut(site: Site, by: str) -> str:
    code, part = code_of(site.text), REMOVED.get(by, "")
    if part and part in code:
        better = code.replace(part, "")
        return f"if it should train, write `{better}`; else leave it out of the loss"
    return "if it should train, compute it from tensors that have a graph"
