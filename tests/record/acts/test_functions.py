"""Backwards of custom Functions are compared with what their forwards say, on both engines."""

from __future__ import annotations

import pytest

from gradscope.analysis.report import inspect
from tests.record.acts.test_acts import lines
from tests.record.running import House
from tests.shared.acts import acts, all_said, said

SCRIPT = """\
import torch
from torch.autograd import Function

torch.manual_seed(0)
calls = []

class Square(Function):
    @staticmethod
    def forward(ctx, x, scale):
        print("forward of Square")
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * x * scale

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        wrong = grad * x
        return wrong * ctx.scale, None

class Reverse(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad

class Round(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad

class Clamp(Function):
    @staticmethod
    def forward(x):
        return x.clamp(-1, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad):
        return grad

class Drop(Function):
    @staticmethod
    def forward(ctx, x):
        mask = torch.bernoulli(torch.full_like(x, 0.5))
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad):
        (mask,) = ctx.saved_tensors
        return grad * mask

class Counted(Function):
    @staticmethod
    def forward(ctx, x):
        calls.append(1)
        return x * len(calls)

    @staticmethod
    def backward(ctx, grad):
        return grad * 7

class Fill(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(3)

    @staticmethod
    def backward(ctx, grad):
        return grad * 3

x = torch.linspace(-2, 2, 6).requires_grad_()
for step in range(4):
    for function in (Reverse, Round, Clamp, Drop, Counted):
        function.apply(x * 1).sum().backward()
    Square.apply(x * 1, 2.0).sum().backward()
    Fill.apply(x * 1).sum().backward()
print(x.grad, torch.rand(2), len(calls), Square.backward.__name__)
"""

EXPECTED = {
    "Reverse": ("not checked", "its forward returns its input"),
    "Round": ("not checked", "the derivative of its forward is 0 everywhere there"),
    "Clamp": ("straight-through", None),
    "Drop": ("agrees", None),
    "Counted": ("not checked", "its forward returns other results when run again"),
    "Square": ("deviates", None),
    "Fill": ("agrees", None),
}


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_a_backward_is_compared_with_the_derivative_of_its_forward(
    house: House, engine: str
) -> None:
    house.write(SCRIPT)

    ran = house.trace("--on", engine, "script.py")

    trace = house.recorded()
    assert house.violations() == []
    told = {(facts := said(trace, act))["type"]: (act, facts) for act in acts(trace, "function")}
    assert {name: (f["found"], f.get("why")) for name, (_, f) in told.items()} == EXPECTED
    act, facts = told["Square"]
    assert (facts["input"], facts["times"], facts["calls"]) == ("x", 0.5, 3)
    assert lines(trace, act.stack) == [19, 18, 88]
    if engine == "torch":
        unwatched = house.python("script.py")
        assert (ran.out, ran.err, ran.code) == (unwatched.out, unwatched.err, unwatched.code)


OF_THE_CLASS = """\
import torch

class Times(torch.autograd.Function):
    @classmethod
    def forward(cls, ctx, x):
        return x * cls.many

    @classmethod
    def backward(cls, ctx, grad):
        return grad * cls.many

class Twice(Times):
    many = 2

class Thrice(Twice):
    many = 3

for kind in (Twice, Thrice):
    x = torch.ones(2, requires_grad=True)
    kind.apply(x).sum().backward()
    print(x.grad)
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_a_backward_may_be_a_method_of_the_class(house: House, engine: str) -> None:
    """As those of entmax are: it is given the class of the call before the context."""
    house.write(OF_THE_CLASS)

    ran = house.trace("--on", engine, "script.py")

    assert ran.out == "tensor([2., 2.])\ntensor([3., 3.])\n"
    told = all_said(house.recorded(), "function")
    assert {facts["type"]: facts["found"] for facts in told} == {
        "Twice": "agrees",
        "Thrice": "agrees",
    }


LARGE = """\
import torch

class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.tanh()
        {kept}
        return y

    @staticmethod
    def backward(ctx, grad):
        return grad * (1 - y_of(ctx) ** 2)

def y_of(ctx):
    return {read}

Tanh.apply(torch.ones(700, 700, requires_grad=True) * 2).sum().backward()
"""


@pytest.mark.parametrize("engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def test_an_output_on_ctx_is_named_also_where_tensors_are_too_large_to_compare(
    house: House, engine: str
) -> None:
    for kept, read, rules in (
        ("ctx.y = y", "ctx.y", [("GS903", 7)]),
        ("ctx.save_for_backward(y)", "ctx.saved_tensors[0]", []),
    ):
        house.write(LARGE.format(kept=kept, read=read))
        house.trace("--on", engine, "script.py")
        found = inspect(house.recorded()).findings
        assert [(each.rule, each.site.line) for each in found] == rules
