"""Statements that do nothing are told by their source; those that look like it are not."""

from __future__ import annotations

import ast
from pathlib import Path

from gradscope.analysis.report import inspect
from gradscope.analysis.source.statements import idle_statements
from gradscope.trace.load_save import load
from tests.zoo.running import told as recorded

IDLE = """\
import torch
def train(model, optimizer, h, w, lr):
    optimizer.zero_grad  # not-called zero_grad
    for x in h:
        x.detach()  # dropped detach
        if lr:
            torch.no_grad()  # not-entered no_grad
    with torch.no_grad():
        w = w - lr * w.grad  # rebound w
    for p in model.parameters():
        p = p * 0.5  # loop-variable p
    optimizer.defaults["lr"] = 0.5 * lr  # defaults lr
class Net:
    def forward(self, x):
        try:
            x.softmax(0)  # dropped softmax
        except ValueError:
            self.eval  # not-called eval
def weaken(grad):
    grad * 0.1  # computed weaken
"""

SOUND = """\
import torch
def train(model, optimizer, h, w, lr):
    optimizer.zero_grad()
    h = h.detach()
    step = optimizer.step
    with torch.no_grad():
        w -= lr * w.grad
        w.grad = None
    v = w - lr * w.grad
    w = w - lr * w.grad
    w = w.detach().requires_grad_()
    u = (u - lr * u.grad).requires_grad_()
    for p in model.parameters():
        p = p.data
        p.mul_(0.5)
    for x in h:
        x = x * 2
    torch.clamp(h, 0, 1, out=h)
    model.to("cpu")
    model.eval()
    optimizer.param_groups[0]["lr"] = lr
    options.defaults["lr"] = lr
    try:
        h @ w
    except RuntimeError:
        first >> second
    with pytest.raises(IndexError, match="dim"):
        h.squeeze(5)
    h.numpy().reshape(2, 3)
"""


def told(text: str) -> list[tuple[int, str]]:
    return [(each.line, f"{each.what} {each.name}") for each in idle_statements(ast.parse(text))]


def test_what_does_nothing_is_told_with_its_line() -> None:
    lines = enumerate(IDLE.splitlines(), 1)
    wanted = [(number, said) for number, line in lines if (said := line.partition("  # ")[2])]

    assert sorted(told(IDLE)) == wanted


def test_what_does_something_is_not_told() -> None:
    assert told(SOUND) == []
    assert told("import csv\nreader.step\n") == []


OWN_DETACH = """\
import types
import torch
class Penalty:
    size = 2
    def detach(self):
        self.terms = []
penalty = Penalty()
w = torch.ones(2, requires_grad=True)
w.pow(2).sum().backward()
penalty.detach()
{line}
"""


def test_a_method_or_number_of_the_program_is_not_taken_for_pytorchs(
    tmp_path: Path,
) -> None:
    other = "types.SimpleNamespace(view=print).view(1)"
    lines = (("own", "", []), ("both", "w.clamp(0)", ["GS707"]), ("other", other, []))
    for name, line, rules in (*lines, ("counts", "3 * penalty.size", [])):
        recorded(tmp_path, name, OWN_DETACH.format(line=line), on="gradscope", level="engine")
        found = inspect(load(tmp_path / f"{name}.json")).findings
        assert [each.rule for each in found] == rules
