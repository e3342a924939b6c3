from __future__ import annotations

import pytest

from gradscope.analysis.state.breakpoints.language import Breakpoint, Condition, read
from gradscope.errors import GradscopeError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("nan", Breakpoint("nan", "nan")),
        ("node Mul*", Breakpoint("node Mul*", "node", "Mul*")),
        ("train.py:41", Breakpoint("train.py:41", "line", "train.py:41")),
        (
            "node Mul* if waited > 1.5ms and count==2 nth 3",
            Breakpoint(
                "node Mul* if waited > 1.5ms and count==2 nth 3", "node", "Mul*",
                (Condition("waited", ">", 1.5e6), Condition("count", "==", 2)), 3,
            ),
        ),
        (
            "grad 'a name' if norm >= 1e-3",
            Breakpoint(
                "grad 'a name' if norm >= 1e-3", "grad", "a name", (Condition("norm", ">=", 1e-3),)
            ),
        ),
    ],
)  # fmt: skip
def test_what_is_written_is_taken_apart(text: str, meant: Breakpoint) -> None:
    assert read(text) == meant


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "starts with its kind"),
        ("node if", "nothing follows 'if'"),
        ("nan nth first", "'first' in 'nan nth first' is not a number"),
        ("nan nth 0", "not a number"),
        ("node Mul if waited", "cannot read the condition 'waited'"),
        ("node Mul if waited > soon", "'soon' is not a number"),
        ("node Mul if waited > 3 weeks", "cannot read the condition"),
        ("node Mul if waited > 3weeks", "an unknown unit"),
        ("node 'Mul", "cannot read"),
        ("node Mul if __import__('os').system('x') > 1", "cannot read the condition"),
    ],
)
def test_what_cannot_be_read_is_said(text: str, complaint: str) -> None:
    with pytest.raises(GradscopeError, match=complaint.replace("(", "\\(")):
        read(text)
