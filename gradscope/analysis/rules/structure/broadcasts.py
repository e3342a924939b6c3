"""Rules about shapes that match by accident."""

from __future__ import annotations

from collections.abc import Iterator

from gradscope.analysis.findings import Certainty, Evidence
from gradscope.analysis.program.calls import SAME_NUMBERS, Calls
from gradscope.analysis.rules.registry import Found, rule
from gradscope.analysis.rules.structure.losses import LINEAR, READS
from gradscope.analysis.rules.structure.number_per_row import one_number_per_row
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

BINARY = ("sub", "rsub", "mul", "add", "div", "expand")
UNARY = frozenset({
    "abs", "pow", "neg", "square", "mul", "div", "exp", "log", "sqrt", "relu", "clamp", "clamp_min",
    "log1p", "tanh", "sigmoid", "softplus", "log_sigmoid_forward", "smooth_l1_loss", "huber_loss",
    "mse_loss", "l1_loss", "add", "sub", "where", "log_cosh", "cosh", "maximum", "minimum", "rsub",
    "leaky_relu", "elu", "heaviside", "sign", "detach", "clone", "alias", "_to_copy",
})  # fmt: skip
OF_TWO = frozenset({"max", "min"})
"""Calls that reduce, unless they get two tensors: then they are `maximum` and `minimum`."""
REDUCED = frozenset({"mean", "sum"})
LOSSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
ELEMENTWISE = UNARY | SAME_NUMBERS - {"unsqueeze", "slice", "select", "expand", "t", "transpose"}


@rule("GS704", "accidental-broadcast", reads=READS)
def accidental_broadcast(trace: Trace) -> Iterator[Found]:
    """A column of N values met a row of N values in a loss, which broadcasts to N × N values.

    A model whose last layer has one output returns (N, 1); targets are often (N,). Their difference
    is (N, N): every prediction is compared with every target, and the model learns the mean. The
    rule also reports (N,) times (N, N), where a value meant for each row is applied to each column.

    Bad:
        pred = torch.nn.Linear(3, 1)(torch.arange(12.0).reshape(4, 3))
        ((pred - torch.arange(4.0)) ** 2).mean().backward()

    Good:
        pred = torch.nn.Linear(3, 1)(torch.arange(12.0).reshape(4, 3))
        ((pred.squeeze(1) - torch.arange(4.0)) ** 2).mean().backward()
    """
    calls = trace.once(Calls)
    seen = set()
    for few, _ in calls.few_of_each_line(calls.called(*BINARY)):
        for at in few:
            column = _column(calls, at)
            if column != NONE and calls.stack(at) not in seen and _is_of_a_loss(calls, at):
                seen.add(calls.stack(at))
                yield _found(calls, at, column)
    yield from one_number_per_row(trace, calls, seen, _is_of_a_loss)


def _column(calls: Calls, at: int) -> int:
    """The tensor of shape (N, 1) that became (N, N) in a call; NONE if there is none."""
    outputs = calls.outputs(at)
    shape = calls.shape(outputs[0]) if outputs else ()
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 2:
        return NONE
    inputs = calls.inputs(at)
    shapes = [calls.shape(tensor) for tensor in inputs]
    known = len(inputs) > 1 and calls.name(at) != "expand"
    for tensor, own in zip(inputs, shapes, strict=True):
        if own != (shape[0], 1) or (known and (shape[0],) not in shapes):
            continue
        if _is_of_a_layer(calls, tensor) or (known and _is_data(calls, tensor)):
            return tensor
    return NONE


def _is_data(calls: Calls, tensor: int) -> bool:
    """Whether a column of values was loaded as one, and not made from a row."""
    for _ in range(8):
        if calls.needs_grad(tensor) or calls.shape(tensor)[1:] != (1,):
            return False
        at = calls.maker(tensor)
        if at == NONE or not calls.inputs(at):
            return True
        tensor = calls.inputs(at)[0]
    return False


def _is_of_a_layer(calls: Calls, tensor: int) -> bool:
    """Whether a column is one because a layer has one output, and not on purpose."""
    pending, seen = [tensor], {tensor}
    while pending and len(seen) < 32:
        at = calls.maker(pending.pop())
        if at == NONE:
            continue
        if calls.name(at) in LINEAR:
            return True
        if calls.name(at) in ELEMENTWISE or calls.name(at) == "gather":  # Q-values of actions
            new = [each for each in calls.inputs(at) if each not in seen]
            seen.update(new)
            pending += new
    return False


def _is_of_a_loss(calls: Calls, at: int) -> bool:
    """Whether each of the N × N values is used separately until all are summed or averaged."""
    if calls.name(at) == "expand":
        followers = [calls.name(each) for each in calls.following(at)]
        loss = bool(LOSSES & set(followers)) or "l1_loss" in calls.site(at).text
        if not (loss or "Loss" in getattr(calls.module(at), "type", "")):
            return False
    pending, seen = [at], {at}
    while pending and len(seen) < 64:
        now = pending.pop()
        following = calls.following(now)
        for each in following:
            name = calls.name(each)
            if name in OF_TWO and len(calls.inputs(each)) > 1:
                name = "maximum"
            if _meets_another_square(calls, each, now, at):
                return False
            if name in LOSSES and calls.shape(calls.outputs(each)[0]) == ():
                return True
            if name in REDUCED:
                if calls.shape(calls.outputs(each)[0]) == ():
                    return True
            elif name in UNARY and each not in seen:
                seen.add(each)
                pending.append(each)
            elif name not in UNARY:
                return False
    return False


def _meets_another_square(calls: Calls, at: int, before: int, broadcast: int) -> bool:
    """Whether a call uses another tensor of N × N values, so that these are intended.

    Results of the same broadcast do not count.
    """
    made = calls.outputs(before)
    others = [
        each
        for each in calls.inputs(at)
        if each not in made
        and (maker := calls.maker(each)) != NONE
        and calls.name(maker) != "expand"
        and not _comes_of(calls, maker, broadcast)
        and not {*calls.inputs(maker)} & {*calls.inputs(broadcast)}
    ]
    return any(calls.shape(each) == calls.shape(made[0]) for each in others) and (
        calls.name(at) not in LOSSES
    )


def _comes_of(calls: Calls, at: int, broadcast: int) -> bool:
    """Whether a call computes elementwise with the result of a broadcast."""
    pending, seen = [at], {at}
    while pending and len(seen) < 16:
        now = pending.pop()
        if now == broadcast:
            return True
        if calls.name(now) in UNARY:
            new = {calls.maker(each) for each in calls.inputs(now)} - seen - {NONE}
            seen |= new
            pending += new
    return False


def _found(calls: Calls, at: int, column: int) -> Found:
    many, site = calls.shape(column)[0], calls.site(at)
    maker = calls.maker(column)
    made = f", computed at {calls.site(maker)}," if maker != NONE else ""
    return Found(
        message=f"A broadcast at {site} made ({many}, {many}) from ({many}, 1) and ({many},): each "
        f"prediction is compared with all {many} targets",
        site=site,
        evidence=(Evidence("op", calls.id(at)), Evidence("tensor", column)),
        why=f"one operand{made} is a column of shape ({many}, 1), the other a row of {many}; all "
        f"{many * many:,} results went into the loss",
        fix="give both the same shape: `.squeeze(-1)` on the column, or `.unsqueeze(-1)` on the "
        "other",
        certainty=Certainty.INFERRED,
    )
