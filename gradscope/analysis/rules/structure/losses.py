"""Rules about inputs of losses: probabilities instead of logits, and the reverse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gradscope.analysis.findings import Evidence, Rewrite
from gradscope.analysis.program.calls import Calls
from gradscope.analysis.rules.own_line import instead, renamed_call, rewritten, without_call
from gradscope.analysis.rules.registry import Found, rule
from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace

READS = ("op", "tensor", "op.inputs")
SOFTMAX = ("_softmax", "_log_softmax", "softmax", "log_softmax")
SIGMOID = ("sigmoid", "log_sigmoid_forward", "log_sigmoid")
NLL = ("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d", "nll_loss_nd")
LINEAR = ("addmm", "mm", "linear", "convolution", "matmul", "bmm", "baddbmm")
CROSS_ENTROPY = "cross_entropy", "CrossEntropyLoss"
WORDS = {
    "_softmax": "softmax", "_log_softmax": "log_softmax", "log_sigmoid_forward": "logsigmoid",
    "binary_cross_entropy_with_logits": "binary cross entropy with logits",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Given:
    """An input of a loss, in one line of the program."""

    loss: int  # the call
    maker: int  # the call that returned the input
    times: int


@rule("GS701", "double-softmax", reads=READS)
def double_softmax(trace: Trace) -> Iterator[Found]:
    """A softmax is applied to probabilities: the result of a softmax or a sigmoid.

    Cross entropy takes logits, and computes log-probabilities itself. From probabilities it
    computes probabilities that are nearly equal: the loss cannot become small, and gradients stay
    small.

    Bad:
        w = torch.tensor([[0.5, -0.2, 0.1]], requires_grad=True)
        probs = torch.softmax(w, dim=1)
        torch.nn.functional.cross_entropy(probs, torch.tensor([0])).backward()

    Good:
        w = torch.tensor([[0.5, -0.2, 0.1]], requires_grad=True)
        torch.nn.functional.cross_entropy(w, torch.tensor([0])).backward()
    """
    calls = trace.once(Calls)
    for given in _given(calls, "_log_softmax", "log_softmax", "_softmax", "softmax"):
        first, second = calls.name(given.maker), calls.name(given.loss)
        is_loss = _is_cross_entropy(calls, given.loss)
        if first not in (*SOFTMAX, *SIGMOID) or not is_loss:
            continue
        site, loss = calls.site(given.maker), calls.site(given.loss)
        made = _word(first)
        harmless = first in {"_log_softmax", "log_softmax"}
        cause = (
            "log_softmax does not change log-probabilities, so one of the two is redundant"
            if harmless
            else f"results of {made} lie between 0 and 1, so no class can get far ahead of the "
            "others: the loss stays high and gradients are small"
        )
        yield Found(
            message=f"Double softmax: cross entropy at {loss} takes logits, but gets the result of "
            f"{made}{calls.where(given.maker)} at {site}",
            site=site,
            evidence=_evidence(calls, given.maker, given.loss),
            why=f"{_word(second)}{calls.where(given.loss)} is applied to the result of {made}; "
            f"{cause}",
            fix=_leave_out(calls, given.maker, "softmax", "log_softmax", "sigmoid"),
            rewrite=_left_out(calls, given.maker, "softmax", "log_softmax", "sigmoid"),
        )
    yield from _of_a_distribution(calls)


def _of_a_distribution(calls: Calls) -> Iterator[Found]:
    """`Categorical(logits=…)` of probabilities: it normalizes them by logsumexp."""
    for given in _given(calls, "logsumexp"):
        if calls.name(given.maker) in {"_softmax", "softmax"}:
            site = calls.site(given.maker)
            yield Found(
                message=f"Double softmax: logits are normalized at {calls.site(given.loss)}, as by "
                f"Categorical(logits=…), but they are the result of softmax"
                f"{calls.where(given.maker)} at {site}",
                site=site,
                evidence=_evidence(calls, given.maker, given.loss),
                why="the exponential is applied to values between 0 and 1, so the distribution "
                "stays nearly uniform",
                fix="write `Categorical(probs=…)`, or pass it the input of softmax",
            )


@rule("GS702", "double-sigmoid", reads=READS)
def double_sigmoid(trace: Trace) -> Iterator[Found]:
    """Binary cross entropy with logits receives the result of a sigmoid.

    It applies the sigmoid itself. A sigmoid of values between 0 and 1 is 0.5 to 0.73: nothing is
    ever predicted to be false.

    Bad:
        w = torch.tensor([0.5, -0.2], requires_grad=True)
        probs = torch.sigmoid(w)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(probs, torch.ones(2))
        loss.backward()

    Good:
        w = torch.tensor([0.5, -0.2], requires_grad=True)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(w, torch.ones(2))
        loss.backward()
    """
    calls = trace.once(Calls)
    for given in _given(calls, "binary_cross_entropy_with_logits"):
        made = calls.name(given.maker)
        if made not in (*SIGMOID, "_softmax", "softmax"):
            continue
        site, loss = calls.site(given.maker), calls.site(given.loss)
        yield Found(
            message=f"Double sigmoid: binary cross entropy with logits at {loss} gets the result "
            f"of {_word(made)}{calls.where(given.maker)} at {site}",
            site=site,
            evidence=_evidence(calls, given.maker, given.loss),
            why="the loss applies the sigmoid to its input; for probabilities the result is 0.5 to "
            "0.73, so nothing can be predicted to be false",
            fix=_leave_out(calls, given.maker, "sigmoid", "softmax", "logsigmoid"),
            rewrite=_left_out(calls, given.maker, "sigmoid", "softmax", "logsigmoid"),
        )


@rule("GS703", "wrong-loss-input", reads=READS)
def wrong_loss_input(trace: Trace) -> Iterator[Found]:
    """A loss receives a different kind of input than it expects.

    nll_loss and kl_div take log-probabilities, not probabilities or logits; cross entropy takes
    logits, not the result of a ReLU, which cuts them off at zero.

    Bad:
        w = torch.tensor([[0.5, -0.2, 0.1]], requires_grad=True)
        probs = torch.softmax(w, dim=1)
        torch.nn.functional.nll_loss(probs, torch.tensor([0])).backward()

    Good:
        w = torch.tensor([[0.5, -0.2, 0.1]], requires_grad=True)
        log_probs = torch.log_softmax(w, dim=1)
        torch.nn.functional.nll_loss(log_probs, torch.tensor([0])).backward()
    """
    calls = trace.once(Calls)
    for given in _given(calls, *NLL):
        made = calls.name(given.maker)
        if made in {"_softmax", "softmax", "sigmoid"}:
            yield _not_logarithms(calls, given, "nll_loss")
        elif made in LINEAR:
            yield _logits_for_nll(calls, given)
    for given in _given(calls, "_log_softmax", "log_softmax"):
        if calls.name(given.maker) == "relu" and _is_cross_entropy(calls, given.loss):
            yield _cut_off(calls, given)
    for given in _given(calls, "mul", "kl_div"):
        made = calls.name(given.maker)
        if made in {"_softmax", "softmax", "sigmoid"} and _is_of(
            calls, given.loss, "kl_div", "KLDivLoss"
        ):
            yield _not_logarithms(calls, given, "kl_div")


def _not_logarithms(calls: Calls, given: _Given, loss: str) -> Found:
    site, at = calls.site(given.maker), calls.site(given.loss)
    made = _word(calls.name(given.maker))
    line = renamed_call(site.text, "softmax", "log_softmax")
    logs = "log_softmax" if made == "softmax" else "logsigmoid"
    return Found(
        message=f"{loss} at {at} takes log-probabilities, but gets probabilities: the result of "
        f"{made}{calls.where(given.maker)} at {site}",
        site=at,
        evidence=_evidence(calls, given.maker, given.loss),
        why=f"there is no logarithm between {made} and {loss}, so the loss is not the negative "
        "logarithm of a probability",
        fix=f"write `{line}`" if line and line != site.text else f"use {logs} instead of {made}",
        rewrite=rewritten(site, line, OTHER_USES),
    )


def _logits_for_nll(calls: Calls, given: _Given) -> Found:
    at, site = calls.site(given.loss), calls.site(given.maker)
    line = renamed_call(at.text, "nll_loss", "cross_entropy")
    return Found(
        message=f"nll_loss at {at} takes log-probabilities, but gets logits: the result of "
        f"{calls.name(given.maker)}{calls.where(given.maker)} at {site}",
        site=at,
        evidence=_evidence(calls, given.maker, given.loss),
        why="there is no log_softmax between the last layer and nll_loss: the loss falls without "
        "bound while logits grow",
        fix=f"write `{line}`" if line else "use cross_entropy, or log_softmax before nll_loss",
        rewrite=rewritten(at, line, "nll_loss may still fit other inputs of this line"),
    )


def _cut_off(calls: Calls, given: _Given) -> Found:
    site, loss = calls.site(given.maker), calls.site(given.loss)
    return Found(
        message=f"Cross entropy at {loss} gets logits that a ReLU{calls.where(given.maker)} "
        f"cut off at zero at {site}",
        site=site,
        evidence=_evidence(calls, given.maker, given.loss),
        why="logits below zero became zero and get no gradient, so a class whose logits are all "
        "below zero is never learned",
        fix=_leave_out(calls, given.maker, "relu"),
        rewrite=_left_out(calls, given.maker, "relu"),
    )


def _given(calls: Calls, *losses: str) -> Iterator[_Given]:
    """For each line with such a loss, the call that returned its first input."""
    for few, times in calls.few_of_each_line(calls.called(*losses)):
        told = set()
        for loss in few:
            inputs = calls.inputs(loss)
            if calls.name(loss) == "mul":  # target * input, where the target may need a gradient
                inputs = [each for each in inputs if calls.needs_grad(each)][-1:]
            maker = calls.origin(inputs[0]) if inputs else NONE
            if maker != NONE and calls.name(maker) not in told:
                told.add(calls.name(maker))
                yield _Given(loss, maker, times)


def _is_cross_entropy(calls: Calls, softmax: int) -> bool:
    if _is_of(calls, softmax, *CROSS_ENTROPY):
        return True
    if calls.name(softmax) in {"_softmax", "softmax"}:
        return False
    return any(calls.name(user) in NLL for user in calls.following(softmax))


def _is_of(calls: Calls, at: int, function: str, module: str) -> bool:
    """Whether a call is part of this function or module of torch."""
    within = calls.module(at)
    return (within is not None and within.type == module) or function in calls.site(at).text


def _leave_out(calls: Calls, at: int, *names: str) -> str:
    site = calls.site(at)
    line = without_call(site.text, *names)
    if line and line != site.text:
        return f"{instead(line, site.text)} ({site})"
    return f"remove {_word(calls.name(at))}{calls.where(at)} ({site})"


OTHER_USES = "the result may also be used elsewhere, as for predictions"


def _left_out(calls: Calls, at: int, *names: str) -> Rewrite | None:
    site = calls.site(at)
    return rewritten(site, without_call(site.text, *names), OTHER_USES)


def _word(name: str) -> str:
    return WORDS.get(name, name)


def _evidence(calls: Calls, *places: int) -> tuple[Evidence, ...]:
    return tuple(Evidence("op", calls.id(at)) for at in places)
