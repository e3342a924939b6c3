"""Words that are sought in the names of parameters are told, and where gradients are read."""

from __future__ import annotations

import ast

from gradscope.analysis.source.filters import filters, reads

NAMES = """\
KEPT = ["lora_", "head"]
for name, p in model.named_parameters():
    p.requires_grad = any(word in name for word in KEPT)
for n, p in model.encoder.named_parameters():
    if n.startswith("layer.0") or n == "norm":
        p.requires_grad_(False)
slow = [p for n, p in model.named_parameters() if "bias" not in n]
for n in names:
    print("x" in n)
for name, p in model.named_parameters():
    print("weight" in title)
"""

GRADIENTS = """\
def norms(model):
    return [p.grad.norm() for p in model.parameters()]

def train(loss):
    loss.backward()
    for p in model.parameters():
        p.grad.zero_()
        p.grad = None
        kept.append(p.grad.clone())
"""


def test_words_sought_in_names_are_told_with_how_and_for_what() -> None:
    assert [
        (each.line, each.words, each.how, each.freezes) for each in filters(ast.parse(NAMES))
    ] == [
        (3, ("lora_", "head"), "in", True),
        (5, ("layer.0",), "startswith", True),
        (5, ("norm",), "equal", True),
        (7, ("bias",), "in", False),
    ]


def test_reads_of_gradients_are_told_and_not_what_clears_them() -> None:
    found = [(each.line, each.apart) for each in reads(ast.parse(GRADIENTS))]
    assert found == [(2, True), (9, False)]
