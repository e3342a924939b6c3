"""Names that a program may give: nothing of them is run, drawn over, or taken for markup."""

from __future__ import annotations

import unicodedata

import pytest

from gradscope.trace.schema import NONE
from gradscope.trace.trace import Trace
from tests.debug.screen.driven import SMALL, seen_at, typed  # first: may skip all
from tests.shared.example_traces import Program

NAMES = (
    "\x1b[2J\x1b[31mred\x07\x9b2J", "[red]bold[/red] [@click=app.exit]quit[/]", "w" * 5_000,
    "重み" * 40, "\u202egnp.exe\u2066", "line\nbreak\ttab\r", "\U0001f469\u200d\U0001f469 e\u0301",
    "$background %s {0} \\",
)  # fmt: skip


def called(name: str) -> Trace:
    """A program whose file, lines, leaf, modules, operations and hooks have this name."""
    p = Program(script=f"{name}.py")
    p.module("", name)
    p.module(name, name)
    x = p.leaf((3,), name)
    y = p.call(f"{name}Backward0", (x,), (3,), p.line(1, name), name, saves=((name, x),))
    p.hook(y, name, p.line(2, name))
    p.backward(p.call("SumBackward0", (y,), (), p.line(3, name)), p.line(4, name))
    return p.trace()


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_is_shown_as_what_it_is(name: str) -> None:
    text = name.replace("\n", " ").replace("\r", " ")[:300]
    seen, *others = seen_at(
        called(name), (">", ">", "5", "right", "right", "right"), ("y", "4"),
        (typed(f"goto {text}"), typed(f"node {text}")),
    )  # fmt: skip

    assert seen.node != NONE
    if name.startswith("[red]"):
        assert "[red]bold[/red] [@click" in seen.text
    for each in (seen, *others):
        shown = each.text.replace("\n", "")
        assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs", "Co")]
        assert not set("\u202e\u2066\u2028") & set(shown)
        assert {strip.cell_length for strip in each.strips} == {SMALL[0]}
