"""Rules about custom Functions."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, Severity
from gradscope.analysis.identity.sites import Site, at
from gradscope.analysis.program.acts import Acts, Done
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import Deed
from gradscope.trace.trace import Trace


@rule("GS901", "wrong-backward", Severity.WARNING, needs="engine")
def wrong_backward(trace: Trace) -> Iterator[Found]:
    """The backward of a custom Function returns another gradient than its forward has.

    When a recording ends, the forward of the first calls runs again on copies, and the engine's own
    derivative of it is compared with what the backward had returned. Of a forward that returns what
    it is given (gradient reversal), or whose slope is 0 (rounding), nothing is said: there, another
    gradient is what the Function is for. `--no-check-functions` leaves it out.

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
    for act in acts.of(Deed.FUNCTION):
        found = act.facts.get("found")
        if found == "deviates":
            yield _deviates(acts, act)
        elif found == "straight-through":
            yield _straight_through(acts, act)


def _deviates(acts: Acts, act: Done) -> Found:
    facts, (made, *others) = act.facts, acts.sites(act)
    name, given = facts.get("type", "a Function"), facts.get("input", "an input")
    times, off = facts.get("times"), facts.get("off")
    called = others[-1] if others else Site()
    parts = ", ".join(map(str, others[:-1]))
    returned = f" (with {parts})" if parts else ""
    if facts.get("returned") == "None":
        said = f"returns None for `{given}`, which needs a gradient"
        why = f"the derivative of its forward by `{given}` is not 0"
    elif times is not None:
        said = f"returns {times:g} times the gradient of `{given}`"
        why = f"the derivative of its forward gives 1 for each {times:g} that it returned"
    else:
        said = f"returns a wrong gradient for `{given}`"
        why = f"it is off from the derivative of its forward by {off:.0%} of the larger norm"
    return Found(
        message=f"The backward of {name} {said}: {made}{returned}",
        site=made,
        evidence=(Evidence("act", act.id),),
        why=f"{why}: the forward of the call{at(called)} was run again with history, on copies of "
        "what it was given, and gave the same result",
        fix=f"return the derivative of what `forward` computes, in the order of its inputs; "
        f"`torch.autograd.gradcheck({name}.apply, inputs)` with doubles tells whether it is right",
        certainty=Certainty.INFERRED,
    )


def _straight_through(acts: Acts, act: Done) -> Found:
    made = acts.sites(act)[0]
    name, given = act.facts.get("type", "a Function"), act.facts.get("input", "an input")
    return Found(
        message=f"The backward of {name} returns a gradient for elements of `{given}` on which its "
        f"result does not depend: {made}",
        site=made,
        evidence=(Evidence("act", act.id),),
        why="where the derivative of its forward is not 0, the two agree; a straight-through "
        "gradient is like that",
        fix="nothing, if that is meant; else leave out these elements, as in `grad * (x > 0)`",
        certainty=Certainty.INFERRED,
        severity=Severity.NOTE,
    )
