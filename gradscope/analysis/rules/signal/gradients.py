"""Rules about gradients that become too small, too large, or identical."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.identity.sites import Site, at as at_, site_of
from gradscope.analysis.lookups import as_written
from gradscope.analysis.program.acts import Acts
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.program.numbers import Series, Start, TensorNumbers, losses_of, rises
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import (
    NONE,
    AssignedAct,
    BuiltAct,
    FilledAct,
    NotFiniteAct,
    Place,
    ScaleAct,
    Tensor,
)
from gradscope.trace.trace import Trace

READS = ("op", "tensor", "op.inputs")
VANISHED = 1e-7
"""Limit of the root mean square; SageMaker Debugger's `vanishing_gradient` uses the mean."""
AGAINST_LARGEST = 1e-5
HUGE = 1e6
SMALL = 0.05
"""A weight is too small if it starts below this fraction of 1 / √(number of its inputs)."""
GROWS, LOOP = 1e6, 8
GROWN, WITH_LOSS = 1e3, 10.0
"""A gradient that grows by the first over steps explodes; by the second, if the loss rises."""

SQUARE = 1e18
"""The square of a larger value overflows float32, and norms and Adam need squares."""
PRODUCTS = ("mm", "addmm", "bmm", "matmul", "linear", "mv", "baddbmm")
BETWEEN = SAME_NUMBERS | {
    "relu", "tanh", "sigmoid", "gelu", "silu", "elu", "leaky_relu", "add", "dropout", "mul",
    "native_dropout", "softplus", "hardtanh", "selu",
}  # fmt: skip


@rule("GS801", "vanishing-gradient", fully="values", reads=READS)
def vanishing_gradient(trace: Trace) -> Iterator[Found]:
    """Gradients vanish on their way back: the first layers receive almost none.

    The rule reports weights whose gradient is below 1e-7, and 100,000 times below that of another,
    in each step. From the layer it names to the input, gradients are under 1/1,000 of the largest.

    Bad:
        w = [torch.tensor([[0.3, -0.2], [0.1, 0.4]], requires_grad=True) for _ in range(12)]
        for _ in range(2):
            h = torch.ones(1, 2)
            for each in w:
                h = torch.sigmoid(h @ each)
            h.sum().backward()

    Good:
        w = [torch.tensor([[0.6, 0.3], [0.2, 0.7]], requires_grad=True) for _ in range(12)]
        for _ in range(2):
            h = torch.ones(1, 2)
            for each in w:
                h = torch.relu(h @ each) + 0.1
            h.sum().backward()
    """
    numbers, calls = trace.once(TensorNumbers), trace.once(Calls)
    finite = (each for each in numbers.gradients if np.isfinite(each.rms).all())
    found = [each for each in finite if each.rms.max() > 0]
    weights = (each for each in found if len(calls.shape(each.tensor)) >= 2)
    every = [each for each in weights if not _is_before_zeros(calls, numbers, each.tensor)]
    if len(every) < 3:
        return
    largest = max(float(each.rms.min()) for each in every)
    least = _gone(every, largest)
    if least is None:  # weights that are too small make the gradients of all others small as well
        largest = max(float(each.rms.min()) for each in found)
        least = _gone(every, largest)
        if least is None or not _begins_small(calls, numbers, least.tensor)[0]:
            return
    weak = [each for each in every if float(each.rms.max()) < 1e-3 * largest]
    if not _so_are_those_before(calls, least, every, weak):
        return
    frontier = max(weak, key=lambda each: float(each.rms.max()))
    at, site = _used(calls, least.tensor)
    small, filled = _begins_small(calls, numbers, least.tensor)
    yield Found(
        message=f"Vanishing gradient: the gradient of {_name(trace, least.tensor)} (used at {site})"
        f" is {float(least.rms.max()):.1g}, that of the strongest layer {largest:.1g}; "
        f"{len(weak)} of {len(every)} weights get less than a thousandth of that, from "
        f"{_name(trace, frontier.tensor)} backwards{_through(trace)}{small}",
        site=site,
        evidence=(
            *(Evidence("op", calls.id(at)) for _ in range(at != NONE)),
            *(each.evidence(trace) for each in (least, frontier)),
        ),
        why="each layer multiplies gradients by its weights and by the slope of its activation; "
        "a sigmoid's slope is at most 1/4",
        fix=f"initialize with kaiming or xavier weights{at_(filled)}"
        if small
        else "use relu, gelu or residual connections, normalize between layers, and initialize "
        "with kaiming or xavier weights",
        certainty=Certainty.CERTAIN,
    )


def _so_are_those_before(
    calls: Calls, least: Series, every: list[Series], weak: list[Series]
) -> bool:
    """Whether weights before it, or on the same input, also get small gradients, and the first one.

    If not, this is a side branch and no sign of vanishing: queries and keys, or the step sizes of a
    state space, have small gradients at first, and learn all the same.
    """
    used = {each.tensor: _used(calls, each.tensor)[0] for each in every}
    at = used[least.tensor]
    seen = at != NONE and not calls.name(at).endswith("_")  # more than how it was filled
    sources = calls.sources(at) if seen else {each for each in used if used[each] <= at}
    sources.add(least.tensor)
    given = _given(calls, least.tensor)
    before = {each for each in used if each in sources or given & _given(calls, each)}
    small = {each.tensor for each in weak} & before
    return 2 * len(small) >= len(before) and min(sources & before, key=used.__getitem__) in small


def _given(calls: Calls, tensor: int) -> set[int]:
    """What a weight is multiplied by in its first call."""
    inputs = {each for at in _products(calls, tensor)[:1] for each in calls.inputs(at)}
    return {
        each for each in inputs if calls.origin_leaf(each) != tensor and len(calls.shape(each)) >= 2
    }


def _is_before_zeros(calls: Calls, numbers: TensorNumbers, tensor: int) -> bool:
    """Whether the result of a weight is multiplied by one that started at zero, as LoRA's A by B.

    The gradient of the first is then as small as the second still is.
    """
    for at in _products(calls, tensor)[:1]:
        for following in calls.following(at, BETWEEN):
            second = [*map(calls.origin_leaf, calls.inputs(following))]
            starts = [numbers.begins.get(each) for each in second if len(calls.shape(each)) >= 2]
            if calls.name(following) in (*PRODUCTS, "convolution") and any(
                start is not None and start.rms == 0 for start in starts
            ):
                return True
    return False


def _gone(every: list[Series], largest: float) -> Series | None:
    """The weakest of the weights that receive almost no gradient."""
    few = [each for each in every if 0 < each.rms.max() < min(VANISHED, AGAINST_LARGEST * largest)]
    return min(few, key=lambda each: float(each.rms.max()), default=None)


def _begins_small(calls: Calls, numbers: TensorNumbers, tensor: int) -> tuple[str, Site]:
    """Whether a weight started far too small for its number of inputs, and where it was set."""
    start, shape = numbers.begins.get(tensor), calls.shape(tensor)
    rms = math.nan if start is None else start.rms
    if not rms < SMALL / math.sqrt(math.prod(shape[1:]) or 1):
        return "", Site()
    site = _assigned(calls.trace, calls, tensor)
    return f"; its initial values of {rms:.1g}{at_(site)} are far too small", site


def _through(trace: Trace) -> str:
    """The activations that shrink gradients, where a model was built with many of them."""
    acts = trace.once(Acts)
    kinds = Counter(act.facts.type for act in acts.of(BuiltAct))
    if not kinds or kinds.most_common(1)[0][1] < 3:
        return ""
    kind, many = kinds.most_common(1)[0]
    lines = [acts.site(act) for act in acts.of(BuiltAct) if act.facts.type == kind]
    return f"; in between there are {many} {kind}, the first built at {lines[0]}"


@rule("GS802", "exploding-gradient", fully="values", reads=READS)
def exploding_gradient(trace: Trace) -> Iterator[Found]:
    """Gradients, or a state that a loop passes on, grow without bound.

    The rule reports the result of a line that grows a millionfold within a step. It also reports a
    gradient above 1,000,000 (root mean square) that no loss scale explains, if it grows: over
    steps, with the loss, until it is not finite, or in a loop that applies one weight repeatedly.
    It does not report a gradient that is equally large in each step: its loss is a sum, or has
    large units.

    Bad:
        w = torch.full((3, 3), 1.5, requires_grad=True)
        h = torch.ones(1, 3)
        for _ in range(14):
            h = h @ w
        h.sum().backward()

    Good:
        w = torch.full((3, 3), 0.3, requires_grad=True)
        h = torch.ones(1, 3)
        for _ in range(14):
            h = h @ w
        h.sum().backward()
    """
    numbers, calls = trace.once(TensorNumbers), trace.once(Calls)
    grown = _grows(calls, numbers)
    if grown is not None:
        yield grown
        return
    if trace.once(Acts).of(ScaleAct):
        return
    huge = [each for each in numbers.gradients if np.isfinite(each.rms).any()
            and np.nanmax(each.rms) > HUGE]  # fmt: skip
    grows, falls = _over_steps(trace, huge)
    rounds, weight, line = (0, NONE, Site()) if falls or _are_seen(numbers) else _looped(calls)
    if huge and (rounds or grows):
        most = max(huge, key=lambda each: float(np.nanmax(each.rms)))
        _, site = _used(calls, most.tensor)
        loop = f" is applied {rounds} times in a step{at_(line)}"
        loop = f"; {_name(trace, weight)}{loop}" if rounds else ""
        yield Found(
            message=f"Exploding gradient: that of {_name(trace, most.tensor)} (used at {site}) is "
            f"{float(np.nanmax(most.rms)):.1g}, {len(huge)} in total above 1,000,000{grows}{loop}",
            site=site,
            evidence=(most.evidence(trace),),
            why="a step along such a gradient moves the parameters far away",
            fix="clip gradients (torch.nn.utils.clip_grad_norm_), or lower the scale of weights or "
            "the data",
        )


def _are_seen(numbers: TensorNumbers) -> bool:
    """Whether results of calls were recorded, so that a growing loop would have been found."""
    return bool((numbers.values["place"] == Place.OP_OUTPUT).any())


def _over_steps(trace: Trace, huge: list[Series]) -> tuple[str, bool]:
    """What shows that gradients explode, rather than a large loss; whether the loss falls."""
    losses = losses_of(trace)
    falls = len(losses) > 1 and losses[-1] < losses[0]
    broken = bool(trace.once(Acts).of(NotFiniteAct)) or not np.isfinite(losses).all()
    for each in huge:
        finite = each.rms[np.isfinite(each.rms) & (each.rms > 0)]
        grown = float(finite.max() / finite[0])
        if grown > WITH_LOSS and (broken or len(finite) < np.count_nonzero(each.rms)):
            return f"; it grew {grown:.2g}-fold, and later values are not finite", falls
        if (grown > GROWN and not falls) or (grown > WITH_LOSS and rises(losses)):
            return f"; it grew {grown:.2g}-fold since the first step", falls
        if finite.max() > SQUARE:
            return "; the squares of gradients are too large for float32", falls
    return "", falls


def _looped(calls: Calls) -> tuple[int, int, Site]:
    """The weight that one line applies most often in its first step, how often, and where."""
    found = 0, NONE, Site()
    for every in calls.each_line(calls.called(*PRODUCTS)):
        steps = calls.ops["step"][every]
        of_step = [at for at, step in zip(every, steps.tolist(), strict=True) if step == steps[0]]
        last = {*map(calls.origin_leaf, calls.inputs(of_step[-1]))}
        shared = [t for t in map(calls.origin_leaf, calls.inputs(of_step[0])) if t in last]
        shared = [t for t in shared if calls.needs_grad(t) and len(calls.shape(t)) > 1]
        square = [t for t in shared if len({*calls.shape(t)}) == 1]
        if square and len(of_step) >= LOOP and len(of_step) > found[0]:
            found = len(of_step), square[0], calls.site(of_step[0])
    return found


def _grows(calls: Calls, numbers: TensorNumbers) -> Found | None:
    """A product in a loop whose result grows a millionfold within one step."""
    for every in calls.each_line(calls.called(*PRODUCTS)):
        steps = calls.ops["step"][every]
        of_step = [at for at, step in zip(every, steps.tolist(), strict=True) if step == steps[0]]
        values = [(at, numbers.of_op(calls.id(at))) for at in of_step]
        seen = [(at, numbers.number("rms", value)) for at, value in values if value != NONE]
        seen = [(at, rms) for at, rms in seen if np.isfinite(rms) and rms > 0]
        if len(seen) < LOOP:
            continue
        # only the weights are shared: each call uses the result of the one before it
        taken = calls.inputs(seen[0][0])
        shared = [t for t in taken if t in calls.inputs(seen[-1][0]) and calls.needs_grad(t)]
        rms = np.array([each for _, each in seen])
        if shared and rms[-1] > GROWS * rms[0] and (np.diff(rms) > 0).mean() > 0.9:
            site = calls.site(seen[0][0])
            return Found(
                message=f"Exploding state: the result of {calls.name(seen[0][0])} at {site} grows "
                f"from {rms[0]:.1g} to {rms[-1]:.1g} in {len(seen)} iterations of a loop, and so "
                "do gradients",
                site=site,
                evidence=tuple(Evidence("op", calls.id(at)) for at, _ in (seen[0], seen[-1])),
                why="each iteration applies the same weights, which multiply the size of their "
                f"input by {(rms[-1] / rms[0]) ** (1 / (len(seen) - 1)):.2g} each time",
                fix="initialize with an orthogonal matrix (nn.init.orthogonal_), bound the state "
                "(tanh), or clip gradients",
            )
    return None


@rule("GS806", "symmetric-weights", fully="values", reads=READS)
def symmetric_weights(trace: Trace) -> Iterator[Found]:
    """All weights of two consecutive layers start at the same value.

    All units of a layer then compute the same result, get the same gradient, and stay identical;
    if the value is 0, no gradient passes back at all.

    Bad:
        w, v = (torch.full(size, 0.1, requires_grad=True) for size in ((3, 4), (4, 1)))
        (torch.tanh(torch.ones(2, 3) @ w) @ v).sum().backward()

    Good:
        w = torch.tensor([[0.1, -0.2, 0.3, 0.05]] * 3, requires_grad=True)
        v = torch.full((4, 1), 0.1, requires_grad=True)
        (torch.tanh(torch.ones(2, 3) @ w) @ v).sum().backward()
    """
    numbers, calls = trace.once(TensorNumbers), trace.once(Calls)
    alike = {id: start for id, start in numbers.begins.items() if _is_alike(calls, id, start)}
    if len(alike) < 2:
        return
    for tensor, seen in alike.items():
        for at in _products(calls, tensor)[:1]:
            following = [each for each in calls.following(at, BETWEEN) if calls.name(each) in
                         (*PRODUCTS, "convolution")]  # fmt: skip
            nexts = {calls.origin_leaf(t) for each in following for t in calls.inputs(each)}
            second = next(
                (
                    each
                    for each in as_written(trace.table(Tensor), nexts)
                    if each in alike and each != tensor
                ),
                NONE,
            )
            if second != NONE and calls.shape(tensor) and min(calls.shape(tensor)) > 1:
                yield _alike(trace, calls, (tensor, seen), (second, alike[second]), at)
                return


def _is_alike(calls: Calls, tensor: int, start: Start) -> bool:
    return len(calls.shape(tensor)) >= 2 and start.many > 1 and not math.isnan(start.alike)


Seen = tuple[int, Start]


def _alike(trace: Trace, calls: Calls, first: Seen, second: Seen, at: int) -> Found:
    set_at = _assigned(trace, calls, first[0])
    site = set_at if set_at.place else calls.site(at)
    value = first[1].alike
    names = f"{_name(trace, first[0])} and {_name(trace, second[0])}"
    return Found(
        message=f"Symmetric weights: {names} start at {value:g} everywhere ({site}), so all units "
        "of the layer stay identical",
        site=site,
        evidence=(
            first[1].evidence,
            second[1].evidence,
        ),
        why="units with equal weights compute the same result and get the same gradient"
        + ("; zeros in the next layer let no gradient pass back at all" if value == 0 else ""),
        fix="initialize with random values: nn.init.xavier_uniform_ or kaiming_uniform_",
    )


def _assigned(trace: Trace, calls: Calls, tensor: int) -> Site:
    """Where a parameter was last filled before its first use, or got its name."""
    acts = trace.once(Acts)
    told = [act for act in acts.of(FilledAct) if tensor in act.tensors]
    if told:
        return acts.site(told[-1])
    filled = [at for at in calls.called("fill_", "zero_", "copy_") if tensor in calls.outputs(at)]
    if filled:
        return calls.site(filled[-1])
    for act in acts.of(AssignedAct):
        if tensor in act.tensors and act.facts.what == "parameter":
            return acts.site(act)
    return Site()


def _products(calls: Calls, tensor: int) -> list[int]:
    """The calls that multiply by a parameter, transposed or not."""
    found = [at for at in calls.users(tensor) if calls.name(at) in (*PRODUCTS, "convolution")]
    for at in calls.users(tensor)[:3]:
        if calls.name(at) in {"t", "transpose", "permute"}:
            found += calls.following(at)
    return sorted(found)


def _used(calls: Calls, tensor: int) -> tuple[int, Site]:
    products = _products(calls, tensor) or calls.users(tensor)
    return (
        (products[0], calls.site(products[0])) if products else (NONE, site_of(calls.trace, NONE))
    )


def _name(trace: Trace, tensor: int) -> str:
    tensors = trace.table(Tensor)
    name: str = trace.text(int(tensors["name"][tensors.index(tensor)]))
    shape = tuple(tensors.ragged("shape")[tensors.index(tensor)].tolist())
    return f"`{name}`" if name else f"a parameter of shape {shape}"
