"""Rules about activations that pass on no gradient."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence, few_tensors
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.program.numbers import TensorNumbers
from gradscope.analysis.program.training import Training
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.trained.still import StillParameters
from gradscope.trace.schema import NONE, FilledAct, Node
from gradscope.trace.trace import Trace

MASKED = frozenset({"masked_fill", "masked_fill_", "where", "add", "baddbmm", "tril", "triu"})
"""Calls that may have left one value in a row."""
LAYERS = frozenset({"addmm", "mm", "bmm", "baddbmm", "linear", "matmul", "convolution"})
ON_THE_WAY = SAME_NUMBERS | {
    "dropout", "native_dropout", "max_pool2d_with_indices", "avg_pool2d", "mul",
    "native_layer_norm",
    "native_batch_norm", "batch_norm", "layer_norm", "adaptive_avg_pool2d", "mean", "add",
}  # fmt: skip
SLOPE = {"tanh": 0.03, "sigmoid": 0.0075}
"""A mean slope below which an activation is called saturated: 3 % of the steepest there is."""
SLOPE_OF_FILLED = {"tanh": 0.12, "sigmoid": 0.03}
"""The same after a layer whose weights the program drew with a call of `DRAWN`."""
DRAWN = ("normal_", "uniform_")
FAR = 64
"""How many calls before a call are checked."""

ONE_HOT, FEWEST = 0.98, 4


@rule("GS803", "dead-relu", fully="values", reads=("op", "tensor", "op.inputs"))
def dead_relu(trace: Trace) -> Iterator[Found]:
    """A ReLU in front of a layer returned nothing but zeros, every time it was called.

    If its input is always negative, its output and its gradient are 0: the layers before it no
    longer learn.

    Bad:
        w = torch.full((3, 4), -1.0, requires_grad=True)
        v = torch.tensor([[1.0], [2.0], [3.0], [4.0]], requires_grad=True)
        for _ in range(2):
            (torch.relu(torch.ones(5, 3) @ w) @ v).sum().backward()

    Good:
        w = torch.tensor([[0.5, -1.0, 0.2, 0.1]] * 3, requires_grad=True)
        v = torch.tensor([[1.0], [2.0], [3.0], [4.0]], requires_grad=True)
        for _ in range(2):
            (torch.relu(torch.ones(5, 3) @ w) @ v).sum().backward()
    """
    calls, numbers = trace.once(Calls), trace.once(TensorNumbers)
    still = trace.once(StillParameters)
    if still.zero:
        yield from _shut(calls, still)
        return
    dead = sorted(_dead(calls, numbers))
    behind: dict[int, int] = {}
    for at, _ in dead:  # a layer whose input is all zeros returns its bias: that is one cause
        before = [other for other, _ in dead if other < at and other not in behind]
        first = next((other for other in before if _comes_of(calls, at, other)), NONE)
        if first != NONE:
            behind[at] = first
    for at, seen in dead:
        if at not in behind:
            yield _dead_relu(calls, numbers, at, seen, [*behind.values()].count(at))


def _shut(calls: Calls, still: StillParameters) -> Iterator[Found]:
    """ReLUs before which no parameter got a gradient, where only gradients were recorded."""
    nodes = calls.trace.table(Node)
    told: dict[str, Found] = {}
    for each in still.nodes():
        row = nodes.row(each.node)
        if not row.name.startswith(("Relu", "Threshold")) or not calls.ops.has(row.op):
            continue
        place = calls.ops.index(row.op)
        site, filled = calls.site(place), _filled_before(calls, place)
        names = calls.trace.once(Training).named(each.tensors)
        told.setdefault(site.place, Found(
            message=f"Dead ReLU{calls.where(place)} at {site}: before it, {names} received only "
            f"zero gradients in each of {still.looks} checked steps{filled}",
            site=site,
            evidence=(Evidence("op", row.op), *few_tensors(calls.trace, each.tensors)),
            why="its input is always negative, so its output and its gradient are 0, although a "
            "gradient that was not 0 arrived at it",
            fix="check the bias and the scale of the layer before it (a bias far below 0, or a "
            "learning rate that was too large), or use leaky_relu",
            certainty=Certainty.INFERRED,
        ))  # fmt: skip
    yield from told.values()


def _dead(calls: Calls, numbers: TensorNumbers) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """The first call of each ReLU that returned only zeros, and the values of all its calls."""
    for every in calls.each_line(calls.called("relu", "relu_", "threshold")):
        by_module: dict[int, list[int]] = {}
        for at in every:
            by_module.setdefault(int(calls.ops["module"][at]), []).append(at)
        for places in by_module.values():
            seen = [(at, numbers.of_op(calls.id(at))) for at in places]
            seen = [(at, value) for at, value in seen if value != NONE]
            dead = all(
                numbers.number("zero", value) == numbers.number("count", value) > 1
                for _, value in seen
            )
            if len(seen) > 1 and dead and _is_hidden(calls, places[0]):
                yield places[0], seen


def _dead_relu(
    calls: Calls, numbers: TensorNumbers, at: int, seen: list[tuple[int, int]], others: int
) -> Found:
    site, before, filled = calls.site(at), _stretch(calls, numbers, at), _filled_before(calls, at)
    many = "1 later ReLU is" if others == 1 else f"{others} later ReLUs are"
    more = f"; {many} dead as a result" if others else ""
    return Found(
        message=f"Dead ReLU{calls.where(at)} at {site}: all "
        f"{numbers.number('count', seen[0][1]):,.0f} results are 0 in all {len(seen)} calls{more}"
        f"{filled}",
        site=site,
        evidence=tuple(Evidence("op", calls.id(each)) for each, _ in seen[:3]),
        why=f"its input is always negative{before}, so its output is 0 and no gradient passes "
        "back to the layers before it",
        fix="check the bias and the scale of the layer before it (a bias far below 0, or a "
        "learning rate that was too large), or use leaky_relu",
    )


def _filled_before(calls: Calls, at: int) -> str:
    """Where the program filled the layer before: "; the layer before it was filled by …"."""
    inputs = calls.inputs(at)
    maker = calls.origin(inputs[0]) if inputs else NONE
    if maker == NONE:
        return ""
    acts = calls.trace.once(Acts)
    leaves = {calls.origin_leaf(each) for each in calls.inputs(maker)}
    filled = [act for act in acts.of(FilledAct) if leaves & set(act.tensors)]
    lines = {acts.place(act): act.facts.by for act in filled}
    said = " and ".join(f"{by} at {line}" for line, by in lines.items() if line)
    return f"; the layer before it was filled by {said}" if said else ""


def _comes_of(calls: Calls, at: int, other: int) -> bool:
    """Whether the input of a call was computed from the result of another, layer by layer."""
    pending, seen = [at], {at}
    while pending and len(seen) < FAR:
        for tensor in calls.inputs(pending.pop()):
            maker = calls.maker(tensor)
            if maker == other:
                return True
            if maker != NONE and maker not in seen:
                seen.add(maker)
                pending.append(maker)
    return False


SHUT = 1e-7
"""A sigmoid with a smaller slope than this does not recover."""


@rule("GS804", "saturated-activation", fully="values", reads=("op", "tensor", "op.inputs"))
def saturated_activation(trace: Trace) -> Iterator[Found]:
    """A tanh, sigmoid or softmax in front of a layer is saturated from the first step on.

    Where it is flat, gradients are multiplied by nearly 0: the layers before it learn nothing.

    Bad:
        x = torch.tensor([[200.0, 90.0], [-150.0, 80.0]])
        w = torch.tensor([[0.3, -0.4], [0.5, 0.6]], requires_grad=True)
        v = torch.tensor([[0.1], [0.2]], requires_grad=True)
        (torch.tanh(x @ w) @ v).sum().backward()

    Good:
        x = torch.tensor([[2.0, 0.9], [-1.5, 0.8]])
        w = torch.tensor([[0.3, -0.4], [0.5, 0.6]], requires_grad=True)
        v = torch.tensor([[0.1], [0.2]], requires_grad=True)
        (torch.tanh(x @ w) @ v).sum().backward()
    """
    calls, numbers = trace.once(Calls), trace.once(TensorNumbers)
    for every in calls.each_line(calls.called("tanh", "sigmoid", "_softmax", "softmax")):
        told = set()
        for at in every:
            key = (int(calls.ops["module"][at]), calls.name(at))
            if key in told:
                continue
            told.add(key)  # the first call of each
            said = _saturated(calls, numbers, at)
            if said and _is_hidden(calls, at):
                yield _found(calls, numbers, at, said)


def _saturated(calls: Calls, numbers: TensorNumbers, at: int) -> str:
    """How it is saturated, in words; "" if it is not."""
    name, found = calls.name(at), _looked_at(calls, numbers, at)
    if found is None:
        return ""
    mean, rms = found
    if name in SLOPE:
        slope = 1 - rms**2 if name == "tanh" else mean - rms**2
        drawn = any(f"by {each} " in _filled_before(calls, at) for each in DRAWN)
        if not slope < (SLOPE_OF_FILLED if drawn else SLOPE)[name]:
            return ""
        if name == "sigmoid" and not 0.05 < mean < 0.95 and slope > SHUT:
            return ""  # a gate may be shut or open, but not for good
        return (
            f"its mean slope is {max(slope, 0.0):.1%} of 1"
            if name == "tanh"
            else (f"its mean slope is {max(slope, 0.0):.2%} (the largest possible is 25%)")
        )
    options = round(1 / mean) if mean > 0 else 1
    if options < 3 or rms**2 * options < ONE_HOT or _is_masked(calls, numbers, at):
        return ""
    return (
        f"one of {options} options gets nearly all the weight: the sum of squares of a row is "
        f"{rms**2 * options:.1%} on average"
    )


def _looked_at(calls: Calls, numbers: TensorNumbers, at: int) -> tuple[float, float] | None:
    """Mean and rms of its result; None if that or its input was not recorded."""
    value, inputs = numbers.of_op(calls.id(at)), calls.inputs(at)
    if not inputs or int(calls.ops["node"][at]) == NONE:
        return None
    if value != NONE:
        maker = calls.maker(inputs[0])
        known = maker != NONE and numbers.of_op(calls.id(maker)) != NONE
        enough = known and numbers.number("count", value) >= FEWEST
        return (numbers.number("mean", value), numbers.number("rms", value)) if enough else None
    count, mean, rms = (calls.results(at).get(name) for name in ("count", "mean", "rms"))
    if not isinstance(count, int) or count < FEWEST:
        return None
    return (mean, rms) if isinstance(mean, float) and isinstance(rms, float) else None


def _is_masked(calls: Calls, numbers: TensorNumbers, at: int) -> bool:
    """Whether a mask may have left only one option."""
    maker = calls.maker(calls.inputs(at)[0])
    given = NONE if maker == NONE else numbers.of_op(calls.id(maker))
    if given != NONE:
        return bool(numbers.number("neginf", given)) or numbers.number("min", given) < -1e8
    maker = calls.origin(calls.inputs(at)[0])
    return maker == NONE or calls.name(maker) in MASKED


def _found(calls: Calls, numbers: TensorNumbers, at: int, said: str) -> Found:
    site, word = calls.site(at), calls.name(at).lstrip("_")
    return Found(
        message=f"Saturated {word}{calls.where(at)} at {site}: {said}, from the first step on"
        f"{_filled_before(calls, at)}",
        site=site,
        evidence=(Evidence("op", calls.id(at)),),
        why=f"its input is large{_stretch(calls, numbers, at)}, where {word} is flat: "
        "gradients that pass through it become nearly 0",
        fix="divide the scores by the square root of their width"
        if word == "softmax"
        else "bring its input to about -2 to 2: normalize the data, or start with smaller weights",
        certainty=Certainty.INFERRED,
    )


def _stretch(calls: Calls, numbers: TensorNumbers, at: int) -> str:
    """Range of the input of a call, as in " (-299 to 224)"."""
    inputs = calls.inputs(at)
    maker = calls.maker(inputs[0]) if inputs else NONE
    value = NONE if maker == NONE else numbers.of_op(calls.id(maker))
    if value == NONE:
        return ""
    return f" ({numbers.number('min', value):.3g} to {numbers.number('max', value):.3g})"


def _is_hidden(calls: Calls, at: int) -> bool:
    """Whether its result is passed on to a further layer."""
    return any(calls.name(each) in LAYERS for each in calls.following(at, ON_THE_WAY))
