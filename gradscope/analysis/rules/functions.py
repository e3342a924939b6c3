"""Rules about custom Functions."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at, is_installed
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import FunctionAct
from gradscope.trace.trace import Trace


@rule("GS901", "wrong-backward")
def wrong_backward(trace: Trace) -> Iterator[Found]:
    """The backward of a custom Function returns a wrong gradient for its forward.

    When the recording ends, gradscope runs the forward of the first calls again on copies and
    compares the engine's own derivative of it with what the backward returned. It reports nothing
    for a forward that returns its input (gradient reversal) or whose derivative is 0 (rounding):
    there the Function replaces the gradient on purpose. `--no-check-functions` skips this check.

    Bad:
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * x
        Square.apply(torch.ones(3, requires_grad=True) * 3).sum().backward()

    Good:
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, grad):
                (x,) = ctx.saved_tensors
                return grad * 2 * x
        Square.apply(torch.ones(3, requires_grad=True) * 3).sum().backward()
    """
    acts = trace.once(Acts)
    for act in acts.of(FunctionAct):
        found = act.facts.found
        if found == "deviates":
            yield _deviates(acts, act)
        elif found == "straight-through":
            yield _straight_through(acts, act)


def _deviates(acts: Acts, act: Done[FunctionAct]) -> Found:
    facts, (made, *others) = act.facts, acts.sites(act)
    name, given = facts.type, facts.input
    times, off = facts.times, facts.off
    called = others[-1] if others else Site()
    parts = ", ".join(map(str, others[:-1]))
    returned = f" (with {parts})" if parts else ""
    if facts.returned == "None":
        said = f"returns None for `{given}`, which needs a gradient"
        why = f"the derivative of its forward with respect to `{given}` is not 0"
    elif not math.isnan(times):
        said = f"returns {times:g} times the gradient of `{given}`"
        why = f"where it returned {times:g}, the derivative of its forward is 1"
    else:
        said = f"returns a wrong gradient for `{given}`"
        why = f"it differs from the derivative of its forward by {off:.0%} of the larger norm"
    return Found(
        message=f"The backward of {name} {said}: {made}{returned}",
        site=made,
        evidence=(Evidence("act", act.id),),
        why=f"{why}: the forward of the call{at(called)} was run again with gradients, on copies "
        "of its inputs, and returned the same result",
        fix=f"return the derivative of what `forward` computes, in the order of its inputs; check "
        f"it with `torch.autograd.gradcheck({name}.apply, inputs)` on float64 inputs",
        certainty=Certainty.INFERRED,
        # A library's may differ on purpose, as a natural gradient does.
        severity=Severity.NOTE if is_installed(made.file) else None,
    )


def _straight_through(acts: Acts, act: Done[FunctionAct]) -> Found:
    made = acts.sites(act)[0]
    name, given = act.facts.type, act.facts.input
    return Found(
        message=f"The backward of {name} returns a gradient for elements of `{given}` that do not "
        f"affect its result: {made}",
        site=made,
        evidence=(Evidence("act", act.id),),
        why="where the derivative of its forward is not 0, the two agree; a straight-through "
        "estimator does this on purpose",
        fix="nothing if this is intended; otherwise mask these elements, as in `grad * (x > 0)`",
        certainty=Certainty.INFERRED,
        severity=Severity.NOTE,
    )


@rule("GS902", "backward-writes-its-gradient")
def backward_writes_its_gradient(trace: Trace) -> Iterator[Found]:
    """The backward of a custom Function writes in place into the gradient it receives.

    The engine may have passed the same tensor to other nodes: for a sum, both summands receive the
    same one. Whether they see the change depends on the order in which the nodes run.

    Bad:
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return grad.neg_()
        Reverse.apply(torch.ones(3, requires_grad=True) * 2).pow(2).sum().backward()

    Good:
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view_as(x)

            @staticmethod
            def backward(ctx, grad):
                return -grad
        Reverse.apply(torch.ones(3, requires_grad=True) * 2).pow(2).sum().backward()
    """
    acts = trace.once(Acts)
    for act in acts.of(FunctionAct):
        if act.facts.found == "writes":
            site, name = acts.site(act), act.facts.type
            yield Found(
                message=f"The backward of {name} writes in place into the gradient it receives: "
                f"{site}",
                site=site,
                evidence=(Evidence("act", act.id),),
                why="other nodes may have received the same tensor, as both summands of a sum do, "
                "and then use the changed values as their gradient",
                fix="return a new tensor: `grad * 2` instead of `grad.mul_(2)`; or write into "
                "`grad.clone()`",
                certainty=Certainty.CERTAIN,
            )


@rule("GS903", "output-on-ctx")
def output_on_ctx(trace: Trace) -> Iterator[Found]:
    """The forward of a custom Function stores its output as an attribute of ctx: a cycle.

    The output refers to its node, and ctx is that node. Neither is freed after its step, and memory
    grows until the garbage collector runs. `ctx.save_for_backward` saves an output without a cycle.

    Bad:
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.result = x.exp()
                return ctx.result

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.result
        Exp.apply(torch.ones(3, requires_grad=True) * 2).sum().backward()

    Good:
        class Exp(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                result = x.exp()
                ctx.save_for_backward(result)
                return result

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.saved_tensors[0]
        Exp.apply(torch.ones(3, requires_grad=True) * 2).sum().backward()
    """
    acts = trace.once(Acts)
    for act in acts.of(FunctionAct):
        if act.facts.found == "output-on-ctx":
            site, name = acts.site(act), act.facts.name
            yield Found(
                message=f"The forward of {act.facts.type} stores its output as `ctx.{name}` "
                f"at {site}: a reference cycle, which keeps the graph and its memory alive",
                site=site,
                evidence=(Evidence("act", act.id),),
                why="the output refers to its node, and ctx is that node; a backward frees tensors "
                "that save_for_backward saved, but not attributes of ctx",
                fix="call `ctx.save_for_backward(…)` there, and read `ctx.saved_tensors` in "
                "backward",
                certainty=Certainty.CERTAIN,
            )
