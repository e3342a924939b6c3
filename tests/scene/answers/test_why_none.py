"""Why a parameter has no gradient, in one sentence, by what the program did."""

from __future__ import annotations

import pytest

import gradscope
import gradscope.runtime as torch
from gradscope.errors import UnknownNameError
from gradscope.scene.answers.why_none import why_none
from gradscope.trace.trace import Trace

BEGIN = """\
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Linear(2, 2)
        self.head = torch.nn.Linear(2, 1)
        self.spare = torch.nn.Linear(2, 1)
    def forward(self, x):
        return self.head(FORWARD)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""
ENDS = "net(torch.ones(3, 2)).sum().backward()\n"
UNDER_NO_GRAD = """\
with torch.no_grad():
    net(torch.ones(3, 2))
torch.ones(1, requires_grad=True).backward()
"""


def recorded(forward: str, rest: str = ENDS) -> Trace:
    with gradscope.record() as recording:
        code = compile(BEGIN.replace("FORWARD", forward) + rest, "net.py", "exec")
        exec(code, {"torch": torch, "__name__": "net"})
    return recording.trace()


@pytest.mark.parametrize(
    ("forward", "rest", "asked", "answer"),
    [
        (
            "self.body(x).detach()", ENDS, "body.weight",
            "No backward reached body.weight: detach() cut the graph after it at net.py:8.",
        ),
        (
            "self.body(x)", f"net.body.requires_grad_(False)\n{ENDS}", "body.weight",
            "body.weight does not require a gradient: requires_grad was set to False at net.py:11.",
        ),
        (
            "self.body(x)", UNDER_NO_GRAD, "body.weight",
            ("The module that owns body.weight only ran under no_grad(): first called under "
             "no_grad(), in train mode, at net.py:8."),
        ),
        (
            "self.body(x)", ENDS, "spare.bias",
            "spare, which owns spare.bias, was not called during the recording.",
        ),
        (
            "self.body(x)", f"{ENDS}optimizer.zero_grad()\n", "head.bias",
            ("1 of 1 backwards sent head.bias a gradient; its .grad is None from zero_grad at "
             "net.py:12, until the next backward."),
        ),
        (
            "self.body(x)", "net(torch.ones(3, 2))\n", "head.bias",
            "No backward was recorded, so head.bias has no gradient.",
        ),
    ],
)  # fmt: skip
def test_the_reason_is_said_with_its_line(forward: str, rest: str, asked: str, answer: str) -> None:
    scene = why_none(recorded(forward, rest), asked)

    assert scene.title == answer
    assert dict(scene.facts)["optimizers"].startswith("none holds it")  # none has stepped


def test_a_name_that_is_nearly_right_is_answered_with_those_that_are() -> None:
    with pytest.raises(
        UnknownNameError, match=r"no tensor 'head\.wieght'.*did you mean head\.weight"
    ):
        why_none(recorded("self.body(x)"), "head.wieght")


TRAINED = """\
for _ in range(2):
    optimizer.zero_grad()
    loss = net(torch.ones(3, 2)).sum()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""


def test_what_a_rule_found_of_the_parameter_is_the_answer() -> None:
    answer = why_none(recorded("torch.relu(self.body(x)).detach()", TRAINED), "body.bias")

    assert answer.title == (
        "body.weight and body.bias get no gradient: detach() cut the graph after them at net.py:8, "
        "2 times (GS401)."
    )
    assert next(each.lines for each in answer.sections if each.title == "what to do") == (
        "if they should learn, keep the tensor with its graph",
    )


def test_a_number_that_is_only_printed_does_not_cut_the_graph() -> None:
    answer = why_none(recorded("self.body(x)", TRAINED), "body.bias")

    assert answer.title.startswith("2 of 2 backwards sent body.bias a gradient")
    assert "where the graph was cut" not in [each.title for each in answer.sections]


UNUSED = """\
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.scale = torch.nn.Parameter(torch.ones(2))
        self.shift = torch.nn.Parameter(torch.ones(2))
    def forward(self, x):
        out = self.layer(x)
        out + self.shift
        return out
net = Scaled()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
"""


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ("scale", "None of 2 backwards reached scale: no recorded operation used it in a graph."),
        (
            "shift",
            ("None of 2 backwards reached shift: it was used, but no loss was computed from the "
             "result."),
        ),
    ],
)  # fmt: skip
def test_without_a_reason_it_says_whether_it_was_used(asked: str, answer: str) -> None:
    assert why_none(recorded("x", UNUSED + TRAINED), asked).title == answer


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("body", r"^body is a module; choose body\.weight or body\.bias$"),
        (
            "nothing like it",
            r"has no tensor 'nothing like it'; its parameters are body\.weight, bod",
        ),
        ("9999", r"this trace has no tensor '9999': its tensors have the ids \d+ to \d+"),
    ],
)
def test_what_is_no_tensor_is_answered_with_names_of_parameters(asked: str, message: str) -> None:
    with pytest.raises(UnknownNameError, match=message):
        why_none(recorded("self.body(x)"), asked)
