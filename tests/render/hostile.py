"""Names that break tools which print them as they are."""

from __future__ import annotations

from hypothesis import strategies as st

from gradscope.trace.schema import (
    Accumulate,
    Device,
    Edge,
    Error,
    Frame,
    GraphTask,
    HookBegin,
    HookEnd,
    Module,
    Node,
    NodeBegin,
    NodeEnd,
    Op,
    Push,
    Saved,
    Stack,
    Tensor,
    Thread,
)
from gradscope.trace.text import clean
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of

NAMES = (
    '"><script>alert(1)</script>',
    "<b>bold</b>",
    "<>",
    "<",
    "&amp; &lt; & ]]>",
    'quote " and \\" backslash \\',
    r"\N \G \E \l \r \n",
    "line\nbreak\r\nand\ttab",
    "\x1b[31mred\x1b]0;title\x07",
    "\x00\x01\x7f\x9b",
    "\u202eright to left\u202c \u2066isolated\u2069",
    "שלום עולם",
    "کتاب\u200cها",
    "\ufeff\u200b\u2028\u2029",
    "\ufffe\uffff\ud800",
    "👩\u200d👩\u200d👧 家族",
    "[bold red]markup[/] :smile:",
    "node; n0 -> n1 { } // /* */ #",
    "a" * 10_000,
    "",
    "   ",
)

names = st.one_of(
    st.sampled_from(NAMES),
    st.text(max_size=40),
    st.text(alphabet="<>&\"\\'NGL{}|;:/*#\n\r\t[]", max_size=20),
)


def named(name: str) -> Trace:
    """A trace in which everything a program can name has this name."""
    here = {"thread": 0, "task": 0}
    return trace_of(
        Frame(0, name, 3, name, name),
        Stack(0, 0),
        Thread(0, name),
        Module(0, name, name),
        Device(0, name),
        Tensor(0, shape=(2,), dtype=name, name=name, device=0, leaf=True),
        Node(0, name, inputs=(0,), module=0, stack=0),
        Node(1, "AccumulateGrad", inputs=(0,)),
        Node(2, name, inputs=(0,), task=0),
        Op(0, name, inputs=(0,), outputs=(0,), node=0, module=0, stack=0),
        Edge(0, 0, 1),
        Edge(0, 1, 2),
        Saved(0, node=0, slot=name, tensor=0),
        GraphTask(0, roots=(0,), stack=0, begin=0, end=100),
        Push(t=1, node=0, length=1, **here),
        HookBegin(t=2, node=0, name=name, stack=0, **here),
        HookEnd(t=3, node=0, **here),
        NodeBegin(t=4, node=0, **here),
        NodeEnd(t=20, node=0, failed=True, **here),
        Accumulate(t=21, node=1, tensor=0, **here),
        Error(t=30, node=0, type=name, message=name, **here),
        meta={key: clean(name) for key in ("script", "producer", "host")} | {"level": "values"},
    )
