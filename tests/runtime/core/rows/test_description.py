"""A function of the runtime can be looked at: its parameters, its help, its lines."""

from __future__ import annotations

import inspect
import linecache
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest

import gradscope.runtime as torch
from gradscope.runtime.core.generated.texts import build
from gradscope.runtime.core.rows.operation import REGISTRY
from gradscope.runtime.core.rows.parameters import declared, parameters, passed


def test_help_tells_schema_node_and_gradients() -> None:
    script = (
        "import gradscope.runtime as torch, inspect\n"
        "print(inspect.signature(torch.mul), inspect.signature(torch.argmax))\n"
        "print(torch.mul.__doc__)\n"
        "torch.mul(torch.ones(2), torch.ones(2))\n"
        "print(torch.mul.__doc__.splitlines()[-1])\n"
        "print(torch.eq.__doc__)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    signatures, *lines = ran.stdout.splitlines()
    assert signatures == (
        "(input, other, *, out=None) "
        "(input, dim=None, keepdim=False, *, axis=None, keepdims=None, out=None)"
    )
    assert lines[:3] == [
        "mul(Tensor self, Tensor other) -> Tensor",
        "",
        "Its node is MulBackward0, which keeps other, self.",
    ]
    assert "The gradient of self is a formula of (grad, other), see arithmetic.py:" in lines[3]
    assert lines[5:] == [
        "The gradient of other is grad * self",
        "eq(Tensor self, Tensor other) -> Tensor",
        "",
        "It has no derivative, and no node.",
    ]


def test_a_traceback_shows_the_lines_of_a_call_that_was_written_as_text() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.mul(torch.ones(2), torch.ones(3))

    shown = "".join(traceback.format_tb(raised.tb))
    assert "refused(op, error, (a_self, a_other, ))" in shown


def test_what_is_written_as_text_has_a_source() -> None:
    x = torch.ones(2, requires_grad=True)
    (x * x).sum().backward()
    torch.argmax(x, axis=0)
    mul = REGISTRY["mul"]
    node = mul.node_class
    assert node is not None

    assert "made = new(Tensor)" in inspect.getsource(torch.Tensor.__mul__)
    assert "v_other" in inspect.getsource(node.run_arrays)
    assert "axis" in inspect.getsource(torch.argmax)


def test_no_file_name_stands_for_two_texts() -> None:
    scope: dict[str, Any] = {}
    one = build("f", "def road():\n    return 1\n", scope, (), label="a test")
    two = build("f", "def road():\n    return 2\n", scope, (), label="a test")
    again = build("f", "def road():\n    return 1\n", scope, (), label="a test")

    files = [each.__code__.co_filename for each in (one, two, again)]
    assert files == ["<gradscope: a test>", "<gradscope: a test, 2>", "<gradscope: a test>"]
    assert [linecache.getline(file, 2) for file in files] == [
        "    return 1\n",
        "    return 2\n",
        "    return 1\n",
    ]


def test_a_function_whose_code_is_to_come_has_the_parameters_it_will_have() -> None:
    for name, row in REGISTRY.items():
        unbuilt = row.road.__globals__["unbuilt_short"]
        made = unbuilt.function({**row.road.__globals__})
        assert parameters(made) == row.plan.arguments, name


def _by_place(a: int, /, b: int = 2) -> None: ...
def _rest(a: int, *rest: int, c: int, d: int = 3) -> None: ...
def _others(*, a: int = 1, **others: int) -> None: ...
def _nothing() -> None: ...
def _only_by_place(a: int, b: int, /) -> None: ...


@pytest.mark.parametrize(
    ("function", "text", "call"),
    [
        (_by_place, "a, /, b", "a, b"),
        (_rest, "a, *rest, c, d", "a, *rest, c=c, d=d"),
        (_others, "*, a, **others", "a=a, **others"),
        (_nothing, "", ""),
        (_only_by_place, "a, b, /", "a, b"),
    ],
)
def test_parameters_are_read_as_inspect_reads_them(
    function: Callable[..., Any], text: str, call: str
) -> None:
    taken = parameters(function)

    assert [(p.name, p.default) for p in taken] == [
        (p.name, p.default) for p in inspect.signature(function).parameters.values()
    ]
    assert (declared(taken), passed(taken)) == (text, call)
