"""States that go from one engine to the other; steps that gradients flow through."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as ours

CODES = """SGD(p, 0.1, momentum=0.9)
Adam(p, 0.05, amsgrad=True)
AdamW(p, 0.05)
RMSprop(p, 0.01, centered=True, momentum=0.5)
Adagrad(p, 0.1)
Adadelta(p, 0.5)
Adamax(p, 0.05)
NAdam(p, 0.05)
RAdam(p, 0.05)
ASGD(p, 0.05)
Rprop(p, 0.01)
Adafactor(p, 0.05)
LBFGS(p, 0.1, max_iter=3)
LBFGS(p, 1, max_iter=4, line_search_fn='strong_wolfe')"""


class Fit:
    """A small regression with an optimizer."""

    def __init__(self, engine: Any, code: str) -> None:
        rng = np.random.default_rng(0)
        self.x, self.y = (engine.from_numpy(rng.normal(size=(8, n))) for n in (3, 2))
        shapes = ((3, 4), (4,), (4, 2))
        self.p = [engine.nn.Parameter(engine.from_numpy(rng.normal(size=s))) for s in shapes]
        self.optimizer = eval(f"optim.{code}", {"optim": engine.optim, "p": self.p})

    def losses(self, steps: int) -> list[float]:
        return [float(self.optimizer.step(self._closure).detach()) for _ in range(steps)]

    def _closure(self) -> Any:
        self.optimizer.zero_grad()
        first, bias, last = self.p
        loss = (((self.x @ first + bias).tanh() @ last - self.y) ** 2).mean()
        loss.backward()
        return loss

    def saved(self, engine: Any) -> bytes:
        file = io.BytesIO()
        engine.save({"p": [q.detach() for q in self.p], "o": self.optimizer.state_dict()}, file)
        return file.getvalue()

    def load(self, engine: Any, saved: bytes) -> None:
        found = engine.load(io.BytesIO(saved))
        with engine.no_grad():
            for parameter, value in zip(self.p, found["p"], strict=True):
                parameter.copy_(value)
        self.optimizer.load_state_dict(found["o"])


@pytest.mark.torch
@pytest.mark.parametrize("code", CODES.split("\n"))
def test_a_state_goes_to_the_other_engine_and_on_from_there(code: str) -> None:
    theirs = pytest.importorskip("torch")
    one, other = Fit(ours, code), Fit(theirs, code)
    assert one.losses(4) == pytest.approx(other.losses(4), rel=1e-10)

    there, back = Fit(theirs, code), Fit(ours, code)
    there.load(theirs, one.saved(ours))
    back.load(ours, other.saved(theirs))

    expected = other.losses(4)
    assert there.losses(4) == pytest.approx(expected, rel=1e-10)
    assert back.losses(4) == pytest.approx(expected, rel=1e-10)
    assert one.losses(4) == pytest.approx(expected, rel=1e-10)


FLOWING = """SGD(p, torch.tensor(0.1, requires_grad=True), momentum=0.9, differentiable=True)
Adam(p, torch.tensor(0.1, requires_grad=True), differentiable=True)
Adam(p, 0.1, betas=(torch.tensor(0.8, requires_grad=True), torch.tensor(0.9)), amsgrad=True, differentiable=True)
RMSprop(p, 0.1, momentum=0.9, differentiable=True)
Adagrad(p, 0.1, differentiable=True)
Adadelta(p, 0.1, differentiable=True)
Adamax(p, 0.1, differentiable=True)
NAdam(p, 0.1, differentiable=True)
RAdam(p, 0.1, betas=(0.9, 0.9), differentiable=True)
ASGD(p, 0.1, differentiable=True)
Rprop(p, 0.1, differentiable=True)"""  # noqa: E501


@pytest.mark.torch
@pytest.mark.parametrize("code", FLOWING.split("\n"))
def test_gradients_flow_through_a_differentiable_step(code: str) -> None:
    found = []
    for engine in (ours, pytest.importorskip("torch")):
        start = engine.tensor([1.0, -2.0, 3.0], requires_grad=True)
        p = [start.clone()]
        optimizer = eval(f"torch.optim.{code}", {"torch": engine, "p": p})
        for _ in range(3):
            p[0].grad = start * p[0].detach().clone() * 0.5
            optimizer.step()
        lr, beta = optimizer.defaults["lr"], optimizer.defaults.get("betas", (0,))[0]
        wanted = [start, *(t for t in (lr, beta) if isinstance(t, engine.Tensor))]
        try:
            grads = engine.autograd.grad((p[0] ** 2).sum(), wanted)
        except RuntimeError as error:  # some steps write over what they need
            found.append(str(error).splitlines()[0])
        else:
            values = [value for grad in grads for value in grad.reshape(-1).tolist()]
            found.append(pytest.approx(values, rel=1e-4))

    assert found[0] == found[1] if isinstance(found[0], str) else found[0].expected == found[1]


@pytest.mark.torch
@pytest.mark.parametrize("name", ["Adam", "Adadelta", "NAdam", "ASGD"])
def test_a_step_that_should_be_captured_is_refused_in_pytorchs_words(name: str) -> None:
    words = []
    for engine in (ours, pytest.importorskip("torch")):
        parameter = engine.nn.Parameter(engine.ones(2))
        parameter.grad = engine.ones(2)
        with pytest.raises(AssertionError) as refused:
            getattr(engine.optim, name)([parameter], capturable=True).step()
        words.append(str(refused.value))

    assert words[0] == words[1]


def test_hooks_see_states_that_are_given_and_taken() -> None:
    seen: list[str] = []
    optimizer = ours.optim.SGD([ours.nn.Parameter(ours.ones(1))], 0.1)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("asked"))
    optimizer.register_state_dict_post_hook(lambda o, given: {**given, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, given: seen.append("second"))
    optimizer.register_load_state_dict_pre_hook(lambda o, given: seen.append("first"), prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("taken"))

    given = optimizer.state_dict()
    optimizer.load_state_dict(given)

    assert given["more"] == 1
    assert seen == ["asked", "first", "second", "taken"]


def test_a_hook_on_all_optimizers_is_called_first_and_last() -> None:
    from gradscope.runtime.optim.optimizer import (
        register_optimizer_step_post_hook,
        register_optimizer_step_pre_hook,
    )

    seen: list[str] = []
    optimizer = ours.optim.SGD([ours.nn.Parameter(ours.ones(1))], 0.1)
    optimizer.register_step_pre_hook(lambda *_: seen.append("own before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("own after"))
    handles = [
        register_optimizer_step_pre_hook(lambda *_: seen.append("before")),
        register_optimizer_step_post_hook(lambda *_: seen.append("after")),
    ]
    optimizer.step()
    for handle in handles:
        handle.remove()
    optimizer.step()

    assert seen == ["before", "own before", "own after", "after", "own before", "own after"]


@pytest.mark.torch
def test_complex_parameters_are_stepped_as_pairs() -> None:
    found = []
    for engine in (ours, pytest.importorskip("torch")):
        p = [engine.nn.Parameter(engine.tensor([1 + 2j, 3 - 1j]))]
        optimizer = engine.optim.Adam(p, 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            (p[0] * p[0].conj()).real.sum().backward()
            optimizer.step()
        found.append([part for z in p[0].tolist() for part in (z.real, z.imag)])

    assert found[0] == pytest.approx(found[1], rel=1e-5)
