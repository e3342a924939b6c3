"""Leaves outside modules that should be trained, but that no optimizer received."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.sites import at
from gradscope.analysis.program.acts import BRING_IN, Done, Origins, TensorOrigin
from gradscope.analysis.program.loop import ADDED
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found
from gradscope.analysis.rules.trained.unused import touched
from gradscope.trace.arrays import distinct
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    ActFacts,
    AssignedAct,
    Edge,
    GraphTask,
    Node,
    RequiresGradAct,
    Tensor,
)

MANY = 3
"""Least number of backwards that add to gradients that are not cleared."""


def of_no_module(training: Training) -> Iterator[Found]:
    """Tensors created with requires_grad whose gradients add up, while an optimizer steps others.

    Tensors with respect to which the program calls `autograd.grad` are data: they are left out.
    """
    stepping = [each for each in training.stepped if set(each.tensors) & training.reached]
    steps = max((len(each.steps) for each in stepping), default=0)
    alone = training.reached - training.held - training.roots - frozenset(training.parameters)
    if steps < MANY or not alone:
        return
    known = {tensor for act in training.acts.of(AssignedAct) for tensor in act.tensors}
    asked = {tensor for act in training.acts.of(RequiresGradAct) for tensor in act.tensors}
    alone -= known | asked | touched(training) | _asked_for(training)
    events, origins = training.trace.table(Accumulate), training.trace.once(Origins)
    onto_old = np.isin(events["how"], ADDED)
    lost: dict[int, TensorOrigin] = {}
    for leaf in sorted(alone):
        its = events["tensor"] == leaf
        origin = origins.of(leaf)
        if origin is None or (its & onto_old).sum() < max(MANY, its.sum() - 1):
            continue
        if not _is_data(training, leaf, origin) and not _is_given_to_a_module(training, leaf):
            lost[leaf] = origin
    if lost:
        yield _found(training, stepping[0].built, stepping[0].type, lost)


def _is_data(training: Training, leaf: int, origin: TensorOrigin) -> bool:
    """Whether many values came from outside: a gradient may be wanted without training them."""
    tensors = training.trace.table(Tensor)
    return origin.by in BRING_IN and tensors.has(leaf) and prod(tensors.row(leaf).shape) > 1


def _is_given_to_a_module(training: Training, leaf: int) -> bool:
    """Whether a module computes with it without having it as a parameter: it is an input."""
    nodes, edges = training.trace.table(Node), training.trace.table(Edge)
    inputs = nodes.ragged("inputs")
    own = nodes["id"][distinct(inputs.owners[inputs.values == leaf])]
    users = nodes.positions(edges["node"][np.isin(edges["next"], own)])
    return bool((nodes["module"][users[users != NONE]] != NONE).any())


def _asked_for(training: Training) -> set[int]:
    """Leaves with respect to which the program itself computed gradients."""
    nodes = training.trace.table(Node)
    asked = distinct(training.trace.table(GraphTask).ragged("inputs").values).tolist()
    return {each for node in asked if nodes.has(node) for each in nodes.row(node).inputs}


def _found(
    training: Training, built: Done[ActFacts], optimizer: str, lost: dict[int, TensorOrigin]
) -> Found:
    site, origin = training.acts.site(built), next(iter(lost.values()))
    one = len(lost) == 1
    what = training.named(lost)
    if "a leaf" in what or len({training.title(each) for each in lost}) < len(lost):
        what = "A tensor" if one else f"{len(lost)} tensors"
    return Found(
        message=f"No optimizer holds what was created with requires_grad{at(origin.site)}: {what} "
        f"{'gets' if one else 'get'} gradients that are not used, and {optimizer}, built{at(site)},"
        " holds other tensors",
        site=site,
        evidence=(Evidence("act", built.id), *few_tensors(training.trace, lost)),
        why=f"every backward adds to {'its' if one else 'their'} `.grad`; nothing steps, "
        f"changes or clears {'it' if one else 'them'}, and no module has {'it' if one else 'them'} "
        "as a parameter",
        fix="pass it to the optimizer as well: `[*model.parameters(), tensor]`; in a module, make "
        "it an nn.Parameter",
        certainty=Certainty.INFERRED,
        severity=Severity.WARNING,
    )
