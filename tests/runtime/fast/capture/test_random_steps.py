# ruff: noqa: E501 -- lines of programs
"""Steps of random lines, captured and replayed, leave what eager ones leave.

The lines are calls, writes in place, views, branches of numbers and several backwards.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given, strategies

import gradscope.runtime as torch
from gradscope.runtime.fast.capture.captured import Captured
from tests.runtime.fast.capture.test_replayed_steps import bits
from tests.shared.searching import searching

UNARY = (
    "{a}.tanh()", "{a}.sin()", "{a}.exp().clamp(max=3.0)", "{a}.relu()", "-{a}", "{a} * {n}", "{a} + {n}",
    "{n} - {a}", "{a} / 2", "{a}.pow(2)", "{a}.abs()", "{a}.sigmoid()", "F.softplus({a})", "F.gelu({a})",
    "{a}.t()", "{a}.flip(0)", "{a}.roll(1, 1)", "{a}.softmax(1)", "{a}.cumsum(0)", "{a}.clone()",
    "{a}.contiguous()", "{a}.detach()", "{a}.expand(4, 4)", "{a}[:, :1].expand(4, 4)", "{a}.mean(0, keepdim=True) + {a}",
    "{a}.view(16).view(4, 4)", "{a}.reshape(2, 8).reshape(4, 4)", "{a}.chunk(2)[0].repeat(2, 1)",
    "torch.where({a} > 0, {a}, {b})", "{a}.sort(1).values", "{a}.max(1, keepdim=True).values * {b}",
    "{a}.index_select(0, places)", "F.embedding(places, {a})", "F.layer_norm({a}, (4,))",
    "F.dropout({a}, 0.4, training=True)", "{a} * torch.rand_like({a})", "torch.ones(4, 4) * {a}",
    "{a}.triu()", "{a}.masked_fill({b} > 0, 0.5)", "{a}.unsqueeze(0).squeeze(0)", "{a}.double().float()",
)  # fmt: skip
BINARY = (
    "{a} + {b}", "{a} * {b}", "{a} - {b}", "{a} @ {b}", "torch.maximum({a}, {b})", "{a} / ({b}.abs() + 1)",
    "torch.addmm({a}, {b}, {c})", "torch.cat([{a}, {b}])[2:6]", "torch.stack([{a}, {b}]).sum(0)",
    "torch.lerp({a}, {b}, 0.3)", "F.linear({a}, {b})", "torch.einsum('ij,kj->ik', {a}, {b})",
    "torch.addcmul({a}, {b}, {c}, value=0.5)", "F.mse_loss({a}, {b}, reduction='none')",
)  # fmt: skip
IN_PLACE = (
    "{d}.mul_({n})", "{d}.add_({b}.detach())", "{d}.relu_()", "{d}[0] = {b}[1].detach()", "{d}[:, 1] *= 2",
    "{d}.copy_({b})", "{d}.zero_()", "{d}.tanh_()", "{d}.sub_(1.0)", "{d}.t().add_(0.5)", "{d}.fill_({n})",
)  # fmt: skip


def program(seed: int) -> str:
    """The text of a module with a step, and what it holds."""
    draw = Random(seed)
    known = ["x", "w", "v", "fixed"]
    lines = []
    for fresh in range(draw.randint(3, 12)):
        words = {letter: draw.choice(known) for letter in "abc"} | {
            "n": round(draw.uniform(-2, 2), 2)
        }
        kind = draw.random()
        if kind < 0.15:
            lines.append(f"m{fresh} = {words['a']} * 1.0")
            words["d"] = f"m{fresh}"
            known.append(words["d"])
            lines.append(draw.choice(IN_PLACE).format(**words))
        else:
            text = draw.choice(UNARY if kind < 0.6 else BINARY).format(**words)
            known.append(f"y{fresh}")
            inside = draw.random() < 0.08
            lines += ["with torch.no_grad():"] if inside else []
            lines.append(f"{'    ' if inside else ''}y{fresh} = {text}")
    ends = draw.sample(known[-4:], 2)
    lines.append(
        f"loss = ({ends[0]} * 0.1).sin().sum() + {ends[1]}.tanh().mean() + (w * v).sum() * 0.01"
    )
    lines += draw.choice(BACKWARDS)
    lines += draw.choice(UPDATES)
    lines.append(draw.choice(("return loss", "return loss.detach(), y.detach()", "return None"))
                 .replace("y.detach()", f"{known[-1]}.detach() * 1.0"))  # fmt: skip
    optimizer = draw.choice(
        ("SGD([w, v], 0.1, momentum=0.5)", "Adam([w, v], 0.01)", "SGD([w, v], 0.05)")
    )
    body = "\n    ".join(lines)
    return (
        f"F = torch.nn.functional\ntorch.manual_seed({seed % 97})\n"
        "w, v = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)\n"
        "fixed, places = torch.randn(4, 4), torch.tensor([2, 0, 1, 3])\n"
        f"optimizer = torch.optim.{optimizer}\n"
        f"def step(x):\n    {body}\n"
    )


BACKWARDS = (
    ["loss.backward()"],
    ["optimizer.zero_grad()", "loss.backward()"],
    ["optimizer.zero_grad(set_to_none=False)", "loss.backward()"],
    ["loss.backward(retain_graph=True)", "loss.backward()"],
    ["w.grad = None", "loss.backward()"],
    ["grads = torch.autograd.grad(loss, [w, v])", "w.grad, v.grad = [g.clone() for g in grads]"],
    ["loss.backward(inputs=[w])"],
    [
        "(g,) = torch.autograd.grad(loss, w, create_graph=True, allow_unused=True)",
        "((g * g).sum() * 0.1 + loss).backward()",
    ],
)
UPDATES = (
    ["optimizer.step()"],
    ["optimizer.step()", "optimizer.zero_grad()"],
    ["with torch.no_grad():", "    w.sub_(0.1 * w.grad)", "    w.grad.zero_()"],
    ["torch.nn.utils.clip_grad_norm_([w, v], 0.7)", "optimizer.step()"],
    [],
)


def scope_of(seed: int, torch: Any) -> dict[str, Any]:
    """What the program's names mean."""
    scope: dict[str, Any] = {"torch": torch, "__name__": "program"}
    exec(compile(program(seed), f"program {seed}", "exec"), scope)
    return scope


CALLS = 5


def outcome(seed: int, *, captured: bool, calls: int = CALLS) -> tuple[list[Any], Any]:
    """What each call returns and leaves, or how it fails."""
    scope = scope_of(seed, torch)
    step = scope["step"]
    run = Captured(step) if captured else step
    found: list[Any] = []
    torch.manual_seed(seed % 101)
    for nr in range(calls):
        x = torch.linspace(-1, 1, 16).view(4, 4) * (nr - 2)
        try:
            found.append(bits(run(x)))
        except Exception as error:
            found.append(str(error))
        for leaf in (scope["w"], scope["v"], scope["fixed"]):
            found += [bits(leaf), None if leaf.grad is None else bits(leaf.grad)]
    return [*found, torch.rand(1).item()], run


@searching(25)
@given(strategies.integers(0, 10**6))
def test_a_random_step_leaves_the_same_bits(seed: int) -> None:
    eager, _ = outcome(seed, captured=False)
    replayed, run = outcome(seed, captured=True)

    assert replayed == eager, program(seed)
    assert not any("differs" in str(stop) for stop in run.stops), (run.stops, program(seed))
