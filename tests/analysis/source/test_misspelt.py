"""Attributes that are nearly those which autograd reads are told; the program's own are not."""

from __future__ import annotations

import ast

from gradscope.analysis.source.misspelt import misspelt

SLIPS = """\
class Trainer:
    def unfreeze(self, model):
        for p in model.parameters():
            p.require_grad = True  # requires_grad
w.requires_grad_ = True  # requires_grad
w.requires_grad_(False)
w.gradient = None  # grad
setattr(w, "requiresgrad", False)  # requires_grad
model.traning = False  # training
def freeze(required_grad):
    w.required_grad = required_grad  # requires_grad
"""

MEANT = """\
class Layer:
    requires_grads: bool = True
    def __init__(self, require_grad):
        self.require_grad = require_grad
layer.require_grad = False
w.requires_grad, w.grad = False, None
config.requires_gradient = 1
print(config.requires_gradient)
x.gradients = compute()
layer.requires_grads = False
history.trainings = [1]
config.require_grads = True
getattr(config, "require_grads")
"""


def told(text: str) -> list[str]:
    return [f"{each.line} {each.meant}" for _, each in misspelt([ast.parse(text)])]


def test_what_nothing_reads_is_told_with_what_was_meant() -> None:
    lines = enumerate(SLIPS.splitlines(), 1)

    assert told(SLIPS) == [
        f"{number} {said}" for number, line in lines if (said := line.partition("  # ")[2])
    ]


def test_a_program_s_own_attributes_are_not_told() -> None:
    assert told(MEANT) == []
