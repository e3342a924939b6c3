"""What an engine error says when nobody records, and what anomaly mode adds."""

from __future__ import annotations

import linecache
from typing import Any

import pytest

from gradscope.runtime.core.errors.declare import RECORD
from tests.runtime.both import runtime

FILE = "plain.py"
LEAF = "x = torch.ones(3, requires_grad=True)\n"


def note_of(text: str, *, anomaly: bool = False) -> str:
    torch = runtime()
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    try:
        with torch.autograd.set_detect_anomaly(anomaly), pytest.raises(RuntimeError) as raised:
            exec(compile(text, FILE, "exec"), {"torch": torch})
    finally:
        del linecache.cache[FILE]
    (note,) = raised.value.__notes__
    return str(note)


@pytest.mark.parametrize(
    ("write", "writer"),
    [
        ("y.add_(1)", "add_"),
        ("y[0] = 1", "copy_"),
        ("y.detach().zero_()", "zero_"),
        ("torch.add(x.detach(), 1, out=y.detach())", "add"),
        ("torch.nn.init.constant_(y.detach(), 1)", "fill_"),
    ],
)
def test_the_last_operation_that_wrote_is_always_known(write: str, writer: str) -> None:
    note = note_of(f"{LEAF}y = x.exp()\n{write}\ny.sum().backward()\n")

    assert f"{writer} was the last to write to it." in note
    assert RECORD in note


def test_a_custom_function_that_wrote_is_known_by_its_name() -> None:
    note = note_of(
        f"""class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t):
        ctx.mark_dirty(t)
        t._array[...] *= 2
        return t
    @staticmethod
    def backward(ctx, grad):
        return grad * 2
{LEAF}y = x.exp()
z = y * y
Double.apply(y)
z.sum().backward()
"""
    )

    assert "Double was the last to write to it." in note


def test_anomaly_mode_names_the_lines(recwarn: Any) -> None:
    note = note_of(f"{LEAF}y = x.exp()\ny.add_(1)\ny.sum().backward()\n", anomaly=True)

    assert f"ExpBackward0 was made at {FILE}:2 (y = x.exp())." in note
    assert f"add_ was the last to write to it, at {FILE}:3 (y.add_(1))." in note
    assert len(recwarn) == 1, "beside the note there is PyTorch's warning"


def test_anomaly_mode_names_the_line_of_a_write_into_a_leaf(recwarn: Any) -> None:
    text = f"{LEAF}w = torch.ones(3)\ny = x * w\nw.zero_()\ny.sum().backward()\n"

    assert f"zero_ was the last to write to it, at {FILE}:4 (w.zero_())." in note_of(
        text, anomaly=True
    )
    assert len(recwarn) == 1


def test_what_a_warning_says_unwatched_is_pytorchs_and_no_more() -> None:
    torch = runtime()
    with pytest.warns(UserWarning, match="not a leaf") as warned:
        (torch.ones(3, requires_grad=True) * 2).grad  # noqa: B018
    (warning,) = warned

    assert "\n" not in str(warning.message)
    assert warning.filename == __file__
