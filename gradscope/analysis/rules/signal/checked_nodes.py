"""Rules about gradients that `--check-nodes` computed again in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import in_brackets
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE, NodeCheckAct
from gradscope.trace.trace import Trace

FIXES = {
    "kernel": "look for a library that replaces the kernel of this operation; if there is none, "
    "keep the values with --keep-values, and run the program and `gradscope verify` on another "
    "machine",
    "unsteady": "the formula is not the reason: test the memory and the processor of this machine, "
    "or look for a kernel that reads memory which was not written, or that several threads write",
}
"""By what was found."""


def _asked(trace: Trace) -> bool:
    """Whether nodes were computed again."""
    return "checked_nodes" in trace.meta or len(trace.table(NodeCheckAct)) > 0


@rule("GS905", "wrong-gradient", Severity.ERROR, asked=_asked)
def wrong_gradient(trace: Trace) -> Iterator[Found]:
    """A node returned another gradient than the formula of its operation gives.

    `gradscope trace --check-nodes all` copies what nodes receive, save and return, and computes
    their gradients again in float64 with gradscope's own formulas. It allows for the roundings of
    the node's dtype, and for how much the operation magnifies them. A larger difference comes from
    a wrong kernel, such as one that a library registers for an operation, from a saved value that
    was overwritten, or from a machine that computes wrong. On the CPU the node is called twice with
    the same values: if it returns other bits, the finding says so.

    Bad:
        library = torch.library.Library("aten", "IMPL")
        library.impl("tanh_backward", lambda grad, result: grad * (1 - result), "CPU")
        torch.ones(3, requires_grad=True).tanh().sum().backward()

    Good:
        torch.ones(3, requires_grad=True).tanh().sum().backward()
    """
    acts = trace.once(Acts)
    for act in acts.of(NodeCheckAct):
        if act.facts.found in FIXES:
            yield _wrong(acts, act)


def _wrong(acts: Acts, act: Done[NodeCheckAct]) -> Found:
    facts, site = act.facts, acts.site(act)
    if facts.found == "unsteady":
        said = f"returned a wrong gradient for `{facts.input}`, and another one when called again"
    elif math.isnan(facts.times):
        said = f"returned a wrong gradient for `{facts.input}`"
    else:
        said = f"returned {facts.times:.4g} times the gradient of `{facts.input}`"
    off = "" if math.isnan(facts.off) else f"; the difference has {facts.off:.2g} of its norm"
    allowed = "" if math.isnan(facts.allowed) else f", where {facts.allowed:.2g} is allowed"
    return Found(
        message=f"{facts.type}{in_brackets(site)} {said}",
        site=site,
        evidence=_evidence(act),
        why="the gradient was computed again in float64 from copies of what the node received and "
        f"saved, and differs in {_runs(facts.runs)}{off}{allowed}",
        fix=FIXES[facts.found],
        certainty=Certainty.CERTAIN,
    )


@rule("GS906", "gradient-bits-lost", Severity.NOTE, asked=_asked)
def gradient_bits_lost(trace: Trace) -> Iterator[Found]:
    """A gradient kept less than half of the bits of its dtype: it is too small or too large for it.

    `gradscope trace --check-nodes all` computes gradients again in float64. Here the kernel is
    right: the same formula in the node's own dtype is as far off, and is not for a multiple of the
    gradient. It is a note, because the gradient may be added to larger ones. Gradients that vanish
    in float32 or float64 are not named.

    Bad:
        scale = torch.full((3,), 1e-4, dtype=torch.float16)
        x = torch.ones(3, dtype=torch.float16, requires_grad=True)
        (x * scale).backward(torch.full((3,), 1e-5, dtype=torch.float16))

    Good:
        scale = torch.full((3,), 1e-4, dtype=torch.float16)
        x = torch.ones(3, dtype=torch.float16, requires_grad=True)
        (x * scale).backward(torch.full((3,), 1e-1, dtype=torch.float16))
    """
    acts = trace.once(Acts)
    for act in acts.of(NodeCheckAct):
        facts, site = act.facts, acts.site(act)
        if facts.found == "precision":
            yield Found(
                message=f"{facts.type}{in_brackets(site)} kept {facts.right:.0f} of {facts.bits} "
                f"bits of the gradient of `{facts.input}`",
                site=site,
                evidence=_evidence(act),
                why=f"computed again in float64 from the same values, it {_differs(facts.off)} in "
                f"{_runs(facts.runs)}; the same formula in the node's dtype is as far off",
                fix="scale the loss (`torch.amp.GradScaler`), or compute this part in float32",
                certainty=Certainty.CERTAIN,
            )


@rule("GS907", "gradient-replaced", Severity.NOTE, asked=_asked)
def gradient_replaced(trace: Trace) -> Iterator[Found]:
    """A hook of the program replaced a gradient by another one.

    `gradscope trace --check-nodes all` compares what hooks on tensors and nodes return with what
    they receive. Many hooks replace gradients on purpose.

    Bad:
        x = torch.ones(3, requires_grad=True)
        y = x * 2
        y.register_hook(lambda grad: grad * 0.5)
        y.sum().backward()

    Good:
        x = torch.ones(3, requires_grad=True)
        (x * 2).sum().backward()
    """
    acts = trace.once(Acts)
    for act in acts.of(NodeCheckAct):
        facts, site = act.facts, acts.site(act)
        if facts.found != "hook":
            continue
        if math.isnan(facts.times):
            said = f"another one; they differ by {facts.off:.2g} of its norm"
        else:
            said = f"{facts.times:.4g} times it"
        yield Found(
            message=f"A hook{in_brackets(site)} replaced a gradient by {said}",
            site=site,
            evidence=_evidence(act),
            why=f"it was called {facts.runs} times with a gradient that it replaced, and the first "
            "two were compared"
            if facts.runs > 2
            else "what it returned was compared with what it received",
            fix="nothing, if the hook is meant to do this",
            certainty=Certainty.CERTAIN,
        )


def _differs(off: float) -> str:
    return "overflowed" if math.isnan(off) else f"differs by {off:.2g} of its norm"


def _runs(many: int) -> str:
    return "1 run" if many == 1 else f"{many} runs"


def _evidence(act: Done[NodeCheckAct]) -> tuple[Evidence, ...]:
    node, found = act.facts.node, Evidence("act", act.id)
    return (found,) if node == NONE else (found, Evidence("node", node))
