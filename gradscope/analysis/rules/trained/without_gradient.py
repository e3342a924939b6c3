"""The rule about parameters of an optimizer that never had a gradient."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity, few_tensors
from gradscope.analysis.identity.sites import at
from gradscope.analysis.lookups import as_written
from gradscope.analysis.program.acts import Optimizer
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.ownership import replaced_parameters
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.unused import unused_layers
from gradscope.analysis.rules.training import graph_cuts, never_reached
from gradscope.trace.schema import NONE, Module, RanAct, Tensor
from gradscope.trace.trace import Trace

STEPS = 2
"""Least number of steps of the optimizer."""

EXPLAIN = {"GS401": graph_cuts, "GS405": replaced_parameters, "GS411": unused_layers}
"""Findings that say why parameters had no gradient, by rule."""

NAMED = 8
"""Number of parameters that are named."""


@rule("GS420", "no-gradient", Severity.NOTE, reads=("act",))
def no_gradient(trace: Trace) -> Iterator[Found]:
    """Parameters of an optimizer had no gradient in any recorded step, and no other rule says why.

    Their `.grad` was None whenever the optimizer stepped, while others of its parameters had
    gradients. This may be intended: a head that this phase of the training does not use, an expert
    that no input was sent to, a layer for another task. Those that GS401, GS405 or GS411 explains
    are only counted.

    Bad:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.skip = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)

            def forward(self, x):
                return self.body(x)

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).sum().backward()
            optimizer.step()

    Good:
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.skip = torch.nn.Linear(2, 1), torch.nn.Linear(3, 1)

            def forward(self, x):
                return self.body(x) + self.skip(x.repeat(1, 2)[:, :3])

        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            net(torch.ones(3, 2)).sum().backward()
            optimizer.step()
    """
    training = trace.once(Training)
    missing = never_reached(training)
    if not missing:
        return
    for optimizer in training.stepped:
        lost = missing.intersection(optimizer.tensors, *(step.tensors for step in optimizer.steps))
        reached = training.reached.intersection(optimizer.tensors)
        if lost and reached and len(optimizer.steps) >= STEPS:
            yield from _found(training, optimizer, lost)


def _found(training: Training, optimizer: Optimizer, lost: set[int]) -> Iterator[Found]:
    trace = training.trace
    told = {
        rule: {each for one in trace.once(findings) for each in one.parameters}
        for rule, findings in EXPLAIN.items()
    }
    unexplained = lost.difference(*told.values())
    if not unexplained:
        return
    rules = " and ".join(rule for rule, tensors in told.items() if tensors & lost)
    others = len(lost) - len(unexplained)
    see = (
        f"; for {'the other' if others == 1 else f'the other {others}'} see {rules}"
        if others
        else ""
    )
    one = len(unexplained) == 1
    built, many = training.acts.site(optimizer.built), len(set(optimizer.tensors))
    they, them = ("it", "it") if one else ("they", "them")
    its = "its result" if one else "their results"
    yield Found(
        message=f"{len(lost)} of {many} parameters of {optimizer.type}{at(built)} had no gradient "
        f"in any of {len(optimizer.steps)} recorded steps: {_named(training, unexplained)}{see}",
        site=built,
        evidence=(Evidence("act", optimizer.built.id), *few_tensors(trace, unexplained)),
        why=".grad was None at each step: optimizers of torch.optim leave such parameters unchanged"
        f"{_never_called(training, unexplained)}",
        fix=f"if {they} should learn, use {its} in the loss; otherwise "
        f"leave {them} out of the optimizer, or freeze {them}: `requires_grad_(False)`",
        certainty=Certainty.CERTAIN,
        parameters=frozenset(unexplained),
    )


def _named(training: Training, tensors: set[int]) -> str:
    several = as_written(training.trace.table(Tensor), tensors)
    more = f" and {len(several) - NAMED} more" if len(several) > NAMED else ""
    return ", ".join(map(training.name, several[:NAMED])) + more


def _never_called(training: Training, tensors: set[int]) -> str:
    """Modules of these parameters that were not called, each with the one that it is in."""
    modules = training.trace.table(Module)
    ran = {act.module for act in training.acts.of(RanAct)}
    if not ran:
        return ""
    of = dict.fromkeys(training.parameters.get(each, NONE) for each in sorted(tensors))
    idle = [modules.row(each).path for each in of if modules.has(each) and each not in ran]
    named = [f"`{path}`" for path in idle if path]
    if not named:
        return ""
    more = f" and {len(named) - NAMED} more" if len(named) > NAMED else ""
    were = "was" if len(named) == 1 else "were"
    return f"; {', '.join(named[:NAMED])}{more} {were} not called"
