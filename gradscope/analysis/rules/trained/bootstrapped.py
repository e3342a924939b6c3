"""Rules about targets that are computed from the model's own output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import LINEAR, READS
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

DIFFERENCES = ("sub", "rsub", "mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss")
ON_THE_WAY = SAME_NUMBERS | {"max", "amax", "gather", "min", "minimum", "neg", "mean", "sum"}
LEAST = 0.5
"""A discount factor is at least this, and less than 1."""
FAR = 16


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand of a difference, and what it was computed from."""

    weights: frozenset[int]  # of the last layer before it
    layer: int  # the call of that layer
    first: int  # the call that used the layer's result
    discount: int = NONE  # the call that multiplied it
    adds: int = NONE  # the call that added data to that


@rule("GS418", "target-with-gradient", reads=(*READS, "node.arguments"))
def target_with_gradient(trace: Trace) -> Iterator[Found]:
    """A target (reward plus discounted value of the next state) requires a gradient itself.

    Both sides of the difference are outputs of the same model, so a step also moves the target
    towards the prediction. Temporal-difference learning then fails or diverges.

    Bad:
        value = torch.nn.Linear(3, 1)
        now, later, reward = torch.ones(4, 3), torch.zeros(4, 3), torch.ones(4)
        target = reward + 0.9 * value(later).squeeze(1)
        (value(now).squeeze(1) - target).pow(2).mean().backward()

    Good:
        value = torch.nn.Linear(3, 1)
        now, later, reward = torch.ones(4, 3), torch.zeros(4, 3), torch.ones(4)
        target = reward + 0.9 * value(later).squeeze(1).detach()
        (value(now).squeeze(1) - target).pow(2).mean().backward()
    """
    calls = trace.once(Calls)
    told: set[int] = set()
    for few, times in calls.few_of_each_line(calls.with_tensors(*DIFFERENCES)):
        for at in few:
            sides = [_side(calls, each) for each in calls.inputs(at) if calls.needs_grad(each)]
            pair = [each for each in sides if each is not None]
            if len(pair) != 2 or pair[0].weights != pair[1].weights:
                continue
            targets = [each for each in pair if NONE not in (each.adds, each.discount)]
            plain = [each for each in pair if each.discount == NONE == each.adds]
            if len(targets) == len(plain) == 1 and calls.stack(targets[0].adds) not in told:
                told.add(calls.stack(targets[0].adds))
                yield _found(calls, at, targets[0], times)
                break


def _side(calls: Calls, tensor: int) -> _Side | None:
    """An operand back to the last layer, if there is nothing but a target's arithmetic on it."""
    discount = adds = first = NONE
    for _ in range(FAR):
        at = calls.maker(tensor)
        if at == NONE:
            return None
        name = calls.name(at)
        learned = [each for each in calls.inputs(at) if calls.needs_grad(each)]
        if name in LINEAR:
            weights = [leaf for each in learned if _is_leaf(calls, leaf := calls.origin_leaf(each))]
            return _Side(frozenset(weights), at, first, discount, adds) if weights else None
        if len(learned) != 1:
            return None
        if name == "mul":
            factor = calls.given(at).get("other")
            is_one = isinstance(factor, float) and LEAST <= factor < 1
            discount = at if is_one and discount == NONE else discount
        elif name in {"add", "sub", "rsub"}:
            if adds != NONE or discount != NONE:
                return None
            adds = at
        elif name not in ON_THE_WAY:
            return None
        first, tensor = at, learned[0]
    return None


def _is_leaf(calls: Calls, tensor: int) -> bool:
    tensors = calls.tensors
    return calls.needs_grad(tensor) and bool(tensors["leaf"][tensors.index(tensor)])


def _found(calls: Calls, at: int, target: _Side, times: int) -> Found:
    made, came = calls.site(target.adds), calls.site(target.first)
    of = f" from `{came.text}` at {came}" if came != made else ""
    again = f", {times} times" if times > 1 else ""
    return Found(
        message=f"The target computed at {made}{of} requires a gradient: it is an output of the "
        f"same model as the prediction at {calls.site(at)}",
        site=came if came.place else made,
        evidence=(Evidence("op", calls.id(target.adds)), Evidence("op", calls.id(at))),
        why="both sides of the difference come from the same layer, and one is discounted and "
        f"added to{again}: a step also moves the target towards the prediction",
        fix="compute the target under `torch.no_grad()` (and with the target network, if there is "
        "one), or detach() it",
        certainty=Certainty.SUSPECTED,
    )
