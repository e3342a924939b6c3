"""Versions of a program, and how each change is named."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gradscope.analysis.likeness import compare
from gradscope.analysis.likeness.changes.edits import edits
from gradscope.trace.schema import Edge, Frame, GraphTask, Node, Source, Stack
from gradscope.trace.trace import Trace
from tests.analysis.likeness.engines import script_on_gradscope, script_on_pytorch
from tests.shared.by_hand import trace_of
from tests.shared.chains import chain

PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width, p):
        super().__init__()
        self.fc1 = nn.Linear(width, 2 * width)
        self.fc2 = nn.Linear(2 * width, width)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        h = F.gelu(self.fc1(x))
        return x + self.drop(self.fc2(h))


class Net(nn.Module):
    def __init__(self, width=4, depth=2, p=0.5):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.blocks = nn.ModuleList(Block(width, p) for _ in range(depth))
        self.act = nn.ReLU()
        self.last = nn.Linear(width, 2)

    def forward(self, x):
        x = F.leaky_relu(self.act(self.first(x)), 0.2)
        for block in self.blocks:
            x = block(x)
        scale = x.sigmoid()
        shift = x.tanh()
        return self.last(scale * x + shift)


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x, y = torch.ones(5, 3), torch.zeros(5, dtype=torch.int64)
for step in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
"""

ACT = "`self.act = nn.ReLU()` → `self.act = nn.Tanh()`"
SEED = "torch.manual_seed(0)"
STEP = "    optimizer.step()\n"
TWO_LINES = "        scale = x.sigmoid()\n        shift = x.tanh()\n"

NO_MORE = "have no gradient any more: no backward reached them"

TABLE: dict[str, tuple[tuple[str, ...], list[str]]] = {
    "activation": (("F.gelu", "torch.tanh"), ["Gelu → Tanh, 2 places, train.py:14"]),
    "module": (("nn.ReLU()", "nn.Tanh()"), [
        "ReLU → Tanh (`act`), train.py:27", f"{ACT}, train.py:23",
    ]),
    "modules of a kind": (
        ("F.gelu(self.fc1(x))", "self.drop(self.fc1(x))"),
        ["Gelu → Mul, 2 places, train.py:14"],
    ),
    "argument": ((", 0.2)", ", 0.1)"), ["negative_slope 0.2 → 0.1 of LeakyRelu, train.py:27"]),
    "learning rate": (("lr=0.1", "lr=0.01"), ["lr 0.1 → 0.01 (SGD), train.py:37"]),
    "momentum": (("momentum=0.9", "momentum=0.8"), ["momentum 0.9 → 0.8 (SGD), train.py:37"]),
    "weight decay": (
        ("momentum=0.9", "momentum=0.9, weight_decay=0.01"),
        ["weight_decay 0 → 0.01 (SGD), train.py:37"],
    ),
    "optimizer": (
        ("SGD(net.parameters(), lr=0.1, momentum=0.9)", "Adam(net.parameters(), lr=0.1)"),
        ["optimizer SGD → Adam, train.py:37"],
    ),
    "hidden size": (
        ("width=4", "width=8"),
        [
            "`first.weight` [4, 3] → [8, 3], and 10 more leaves with it",
            "`width=4` → `width=8`, train.py:19",
        ],
    ),
    "depth": (
        ("depth=2", "depth=3"),
        [
            "`blocks.2` is new: 7 nodes and 4 leaves, train.py:14",
            "`depth=2` → `depth=3`, train.py:19",
        ],
    ),
    "layer": (
        ("F.leaky_relu(self.act(self.first(x)), 0.2)", "self.act(self.first(x))"),
        ["LeakyRelu is gone, train.py:27"],
    ),
    "dropout": (("p=0.5", "p=0.1"), ["`p=0.5` → `p=0.1`, train.py:19"]),
    "dtype": (
        ("net = Net()", "net = Net().double()", "torch.ones(5, 3)", "torch.ones(5, 3).double()"),
        ["float32 → float64 of gradients, 26 nodes in a step, train.py:27"],
    ),
    "batch size": (
        ("torch.ones(5, 3), torch.zeros(5,", "torch.ones(7, 3), torch.zeros(7,"),
        ["first dimension 5 → 7 of gradients, 19 nodes in a step, train.py:27"],
    ),
    "loss": (
        ("F.cross_entropy(net(x), y)", "F.multi_margin_loss(net(x), y)"),
        ["LogSoftmax, NllLoss → MultiMarginLoss, train.py:41"],
    ),
    "seed": ((SEED, "torch.manual_seed(1)"), ["seed 0 → 1, train.py:35"]),
    "no seed": ((SEED, "pass"), ["no seed is set any more, train.py:35"]),
    "frozen": (
        ("optimizer = torch", "net.first.requires_grad_(False)\noptimizer = torch"),
        [
            "requires_grad = False is new, train.py:37",
            "T, Addmm, Relu, LeakyRelu are gone, train.py:27",
            f"`first.weight` and `first.bias` {NO_MORE}",
        ],
    ),
    "detach": (
        ("F.gelu(self.fc1(x))", "F.gelu(self.fc1(x)).detach()"),
        [
            "detach() is new, train.py:14",
            "T, Addmm, Gelu are gone, 2 places, train.py:14",
            f"`blocks.0.fc1.weight`, `blocks.0.fc1.bias` and 2 more {NO_MORE}",
        ],
    ),
    "order of two lines": (
        (TWO_LINES, "        shift = x.tanh()\n        scale = x.sigmoid()\n"),
        ["Sigmoid is computed in another order, train.py:31"],
    ),
    "clipping": (
        (STEP, "    nn.utils.clip_grad_norm_(net.parameters(), 1.0)\n" + STEP),
        ["clip_grad_norm_(max 1) is new, train.py:43"],
    ),
    "zero_grad": (("    optimizer.zero_grad()\n", ""), ["zero_grad() is gone, train.py:40"]),
    "steps": (("range(3)", "range(4)"), ["3 → 4 steps"]),
    "renamed module": (
        ("self.fc1", "self.lin1"), ["`fc1` is now called `lin1`, 2 places, train.py:14"],
    ),
    "another print": (("    loss.backward()\n", "    loss.backward()\n    print(step)\n"),
                      ["new: `print(step)`, train.py:43"]),
    "comments and blank lines": ((SEED, f"# twice\n\n{SEED}  # zero"), []),
    "nothing": ((SEED, SEED), []),
}  # fmt: skip
"""By the change: what is replaced in the program, and how the first changes are named."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return recorded(tmp_path_factory.mktemp("original"), PROGRAM)


def recorded(
    folder: Path, text: str, name: str = "train.py", run: Callable[..., Trace] = script_on_gradscope
) -> Trace:
    file = folder / name
    file.write_text(text.lstrip("\n"), encoding="utf-8")
    return run(file)


@pytest.mark.parametrize("change", TABLE)
def test_a_change_is_named_as_a_person_would(change: str, original: Trace, tmp_path: Path) -> None:
    replacements, expected = TABLE[change]
    text = PROGRAM
    for before, after in zip(replacements[::2], replacements[1::2], strict=True):
        assert before in text
        text = text.replace(before, after)
    comparison = compare(original, recorded(tmp_path, text))

    said = [re.sub(r"\S+/train", "train", each.text) for each in comparison.changes]
    assert said[: len(expected)] == expected
    if not expected:
        assert said == []
        assert not comparison.differs


@pytest.mark.torch
def test_two_runs_on_pytorch_do_not_differ_and_a_change_is_named_there_too(tmp_path: Path) -> None:
    runs = [
        recorded(tmp_path, text, run=script_on_pytorch)
        for text in (PROGRAM, PROGRAM, PROGRAM.replace("F.gelu", "torch.tanh"))
    ]

    assert not compare(runs[0], runs[1]).differs
    assert compare(runs[0], runs[1]).changes == ()
    assert compare(runs[0], runs[2]).changes[0].words == "Gelu → Tanh"


def test_a_file_with_another_name_and_the_same_text_is_no_change(
    original: Trace, tmp_path: Path
) -> None:
    comparison = compare(original, recorded(tmp_path, PROGRAM, "model.py"))

    assert comparison.changes == ()
    assert comparison.first is None
    assert comparison.moved > 0


def test_a_change_knows_its_nodes_in_both_traces() -> None:
    (replaced, gone) = compare(
        chain(Mul=1, Log=1, Sin=1, Exp=1, Cos=1, Neg=1), chain(Mul=1, Tanh=1, Exp=1, Neg=1)
    ).changes

    assert (replaced.text, replaced.gone, replaced.nodes) == (
        "Log, Sin → Tanh, net.py:2",
        (1, 2),
        (1,),
    )
    assert (gone.text, gone.gone, gone.nodes) == ("Cos is gone, net.py:5", (4,), ())


def test_without_the_source_a_line_that_changed_is_found_at_its_nodes() -> None:
    one, other = chain(Mul=1, Exp=1), chain(Mul=1, Exp=1)
    frames = [
        replace(row, text="x = exp(x)") if isinstance(row, Frame) and row.id == 1 else row
        for row in (*other.rows(Frame), *other.rows(Stack), *other.rows(Node), *other.rows(Edge))
    ]
    (change,) = compare(one, trace_of(*frames, *other.rows(GraphTask))).changes

    assert change.text == "names: a node is created by a line that changed, net.py:2"
    assert (change.one.text, change.other.text) == ("x = x.exp()", "x = exp(x)")


def edited(before: str, after: str) -> list[str]:
    one, other = (trace_of(Source(0, "train.py", text)) for text in (before, after))
    return [each.words for each in edits(one, other)]


def test_comments_layout_and_docstrings_are_no_edits() -> None:
    before = 'def f(x):\n    """Old."""\n    return g(x, 1)\n'
    after = 'def f( x ):\n\n    """New."""\n    # why\n    return g(x, 1)  # yes\n'

    assert edited(before, after) == []


def test_an_edit_is_shown_as_the_tokens_that_differ_or_as_a_short_line() -> None:
    long = "optimizer = Optimizer(parameters, first={}, second=2, third=3)\n"

    assert edited(long.format(1), long.format("x.y(-1)")) == ["`first=1` → `first=x.y(-1)`"]
    assert edited("x = f(1)\n", "x = f(2)\n") == ["`x = f(1)` → `x = f(2)`"]
    long = "optimizer = Optimizer(parameters, betas=({}, 0.999), second=2)\n"
    assert edited(long.format(0.5), long.format(0.9)) == [
        "`betas=(0.5, 0.999)` → `betas=(0.9, 0.999)`"
    ]
    long = "self.blocks = nn.Sequential(*(Block() for _ in range({})))\n"
    assert edited(long.format("DEPTH"), long.format("DEPTH + 1")) == [
        "`range(DEPTH)` → `range(DEPTH + 1)`"
    ]
    long = "self.layers = nn.Sequential(nn.Linear(8, 8), {}, nn.Linear(8, 8))\n"
    assert edited(long.format("nn.ReLU()"), long.format("nn.Tanh()")) == ["`nn.ReLU` → `nn.Tanh`"]
    assert edited(long.format("f(1)"), long.format("g(1, h(2))")) == ["`f(1)` → `g(1, h(2))`"]
    assert edited("x = 1\n", "x = 1\ny = 2\n") == ["new: `y = 2`"]
    assert edited("x = 1\ny = 2\n", "y = 2\n") == ["gone: `x = 1`"]
    assert edited("not python (\n", "not python [\n") == ["`not python (` → `not python [`"]
