"""Why a leaf has a gradient or none: what sent, blocked or cleared it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gradscope.analysis.findings import Finding
from gradscope.analysis.identity.leaves import fill_leaves, leaves_with_node
from gradscope.analysis.identity.sharding import Sharding
from gradscope.analysis.identity.sites import Site, at
from gradscope.analysis.program.acts import Done, by_of, cut_in_words
from gradscope.analysis.program.training import Training
from gradscope.analysis.report import Guard, worst_first
from gradscope.analysis.rules import all_rules
from gradscope.analysis.rules.registry import choose
from gradscope.analysis.rules.trained.forwards import cuts_that_go_on
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    ActFacts,
    CutAct,
    GradSetAct,
    GradZeroedAct,
    GraphTask,
    Module,
    Node,
    NodeBegin,
    RanAct,
    RequiresGradAct,
    Tensor,
    ZeroGradAct,
)
from gradscope.trace.trace import Trace

CLEARED = (ZeroGradAct, GradSetAct, GradZeroedAct)


@dataclass(frozen=True, slots=True)
class StoryLine:
    """Something the program did to the leaf, where, and how often."""

    what: str
    site: Site
    times: int = 1

    def __str__(self) -> str:
        return f"{self.what}{at(self.site)}{f', {self.times} times' if self.times > 1 else ''}"


@dataclass(frozen=True, slots=True)
class LeafGradient:
    """What a trace says about a leaf's gradient."""

    title: str
    answer: str  # in a sentence
    backwards: int
    brought: int  # number of backwards that sent a gradient
    knows: bool  # whether it was recorded what they sent
    asks: bool  # the last recorded requires_grad
    asked: tuple[StoryLine, ...]  # what set that
    cuts: tuple[StoryLine, ...]  # tensors computed from it that lost their graph, except for a log
    ran: tuple[StoryLine, ...]  # how its module was called
    held: tuple[StoryLine, ...]  # optimizers that hold it
    cleared: tuple[StoryLine, ...]
    rule: str = ""  # of the finding that explains the missing gradient
    fix: str = ""  # as that finding says


def gradient_of(trace: Trace, tensor: int) -> LeafGradient:
    training = trace.once(Training)
    told = _Story(training, tensor)
    brought = _brought(trace, tensor)
    story = LeafGradient(
        title=training.title(tensor),
        answer="",
        backwards=len(trace.table(GraphTask)),
        brought=brought,
        knows=trace.meta.get("level") != "graph",
        asks=tensor not in training.frozen,
        asked=told.lines(RequiresGradAct),
        cuts=told.cuts(),
        ran=told.ran(),
        held=told.held(),
        cleared=told.lines(*CLEARED),
    )
    found = None if brought else _explained_by(trace, tensor)
    if found is not None:
        answer = f"{found.message} ({found.rule})."
        return replace(story, answer=answer, rule=found.rule, fix=found.fix)
    return replace(story, answer=_answer(trace, tensor, story))


EXPLAIN = ("GS401", "GS402", "GS405", "GS411")
"""Rules that say why parameters get no gradient."""


def _explained_by(trace: Trace, tensor: int) -> Finding | None:
    """The finding of `inspect` about this parameter."""
    rules = [rule for rule in choose(all_rules(), EXPLAIN, ()) if rule.can_check(trace)]
    found = worst_first(trace, rules, Guard())
    return next((each for each in found if tensor in each.parameters), None)


def _brought(trace: Trace, tensor: int) -> int:
    events, own = trace.table(Accumulate), trace.once(Sharding).held_in(tensor)
    return len(distinct(events["task"][np.isin(events["tensor"], own)]))


def _came(trace: Trace, tensor: int) -> int:
    """Number of backwards that ran the node that accumulates into its .grad."""
    nodes, begun = trace.table(Node), trace.table(NodeBegin)
    fills, own = fill_leaves(trace), trace.once(Sharding).held_in(tensor)
    fills[fills] = [{*row.inputs} <= {*own} for row in nodes.take(np.flatnonzero(fills))]
    return len(distinct(begun["task"][np.isin(begun["node"], nodes["id"][fills])]))


class _Story:
    """Events of the program that concern one tensor."""

    def __init__(self, training: Training, tensor: int) -> None:
        self._training = training
        self._tensor = tensor

    def lines(self, *kinds: type[ActFacts]) -> tuple[StoryLine, ...]:
        """Acts of these kinds, one line for each place."""
        return self._folded(act for act in self._training.acts.of(*kinds) if self._is_of(act))

    def cuts(self) -> tuple[StoryLine, ...]:
        """Cuts of what was computed from it, without reads for a log.

        On PyTorch they are not counted: which leaves a tensor is computed from is read for some of
        the calls of a line, and assumed for the others.
        """
        trace = self._training.trace
        found = self._folded(filter(self._is_of, trace.once(cuts_that_go_on)))
        on_pytorch = trace.meta.get("producer") == "pytorch"
        return tuple(replace(each, times=1) for each in found) if on_pytorch else found

    def _is_of(self, act: Done[ActFacts]) -> bool:
        if self._tensor in act.tensors:
            return True
        of = self._training.acts.by_id.get(act.of)
        return isinstance(act.facts, ZeroGradAct) and of is not None and self._tensor in of.tensors

    def ran(self) -> tuple[StoryLine, ...]:
        """How the module that owns the tensor was called."""
        module = self._training.parameters.get(self._tensor, NONE)
        return self._folded(
            act for act in self._training.acts.of(RanAct) if module != NONE and act.module == module
        )

    def held(self) -> tuple[StoryLine, ...]:
        acts = self._training.acts
        return tuple(
            StoryLine(f"{each.type}, {len(each.steps)} steps, built", acts.site(each.built))
            for each in self._training.stepped
            if self._tensor in each.tensors
        )

    def _folded(self, acts: Iterator[Done[ActFacts]]) -> tuple[StoryLine, ...]:
        found: dict[tuple[str, str], StoryLine] = {}
        for act in acts:
            site, what = self._training.acts.site(act), _in_words(act)
            before = found.get((what, site.place))
            found[what, site.place] = StoryLine(
                what, site, 1 if before is None else before.times + 1
            )
        return tuple(found.values())


def _in_words(act: Done[ActFacts]) -> str:
    match act.facts:
        case RequiresGradAct(to=to):
            return f"requires_grad was set to {to}"
        case CutAct(by=by):
            return f"{cut_in_words(by)} cut the graph after it"
        case RanAct(grad=grad, training=training):
            how = "with gradients on" if grad else "under no_grad()"
            return f"first called {how}, in {'train' if training else 'eval'} mode,"
        case ZeroGradAct(set_to_none=to_none):
            return f"zero_grad{'' if to_none else ' (to zeros)'}"
        case GradSetAct(to=what):
            return f".grad was set to {what}"
    return f"{by_of(act.facts)} wrote into .grad"


def _answer(trace: Trace, tensor: int, story: LeafGradient) -> str:
    """The first reason that applies."""
    row = trace.table(Tensor).row(tensor)
    name = story.title
    if not story.backwards:
        return f"No backward was recorded, so {name} has no gradient."
    if not row.leaf:
        return (
            f"{name} is not a leaf: a backward passes its gradient on and does not keep it in "
            ".grad, unless retain_grad() was called on it."
        )
    if trace.once(Sharding).is_elsewhere(row):
        return f"This rank holds no part of {name}: FSDP passes its gradient to other ranks."
    if story.brought:
        return _of_brought(story)
    if came := _came(trace, tensor):
        return (
            f"{came} of {story.backwards} backwards reached {name} without a gradient: a node on "
            "the way returned None."
        )
    if story.asks and not story.knows:
        return f"Level graph does not record whether a backward reached {name}; use --level engine."
    if not story.asks:
        why = f": {story.asked[-1]}" if story.asked else ""
        return f"{name} does not require a gradient{why}."
    grads_on = [line for line in story.ran if "gradients on" in line.what]
    if story.ran and not grads_on:
        return f"The module that owns {name} only ran under no_grad(): {story.ran[0]}."
    if story.cuts:
        return f"No backward reached {name}: {story.cuts[0]}."
    modules = trace.table(Module)
    owner = trace.once(Training).parameters.get(tensor, NONE)
    if modules.has(owner) and not story.ran and trace.meta.get("level") != "graph":
        path = modules.row(owner).path or "the model"
        return f"{path}, which owns {name}, was not called during the recording."
    none = f"None of {story.backwards} backwards reached {name}"
    if trace.meta.get("producer") == "gradscope.runtime":
        if tensor in trace.once(leaves_with_node):
            return f"{none}: it was used, but no loss was computed from the result."
        return f"{none}: no recorded operation used it in a graph."
    return f"{none}: none of their losses was computed from it."


def _of_brought(story: LeafGradient) -> str:
    brought = f"{story.brought} of {story.backwards} backwards sent {story.title} a gradient"
    to_none = [
        each for each in story.cleared if "set to None" in each.what or each.what == "zero_grad"
    ]
    if to_none:
        return f"{brought}; its .grad is None from {to_none[0]}, until the next backward."
    return f"{brought}; nothing in the recording reset its .grad to None."
