"""The questions that `gradscope inspect` answers about one thing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.output import working, write_bytes
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.scene.answers.answer import Answer
    from gradscope.trace.trace import Trace


_question = partial(
    typer.Option,
    rich_help_panel="Questions about one thing (take a name or an id)",
)

ANode = Annotated[str | None, _question(help="Show everything about a node.", metavar="NODE")]
ATensor = Annotated[str | None, _question(help="Show everything about a tensor.", metavar="TENSOR")]
AnOp = Annotated[str | None, _question(help="Show everything about a forward call.", metavar="OP")]
WhyNone = Annotated[
    str | None, _question(help="Explain why the .grad of a parameter is None.", metavar="TENSOR")
]
GradOf = Annotated[
    str | None, _question(help="Explain how a gradient was computed.", metavar="TENSOR")
]
WhyThen = Annotated[
    str | None, _question(help="Explain why a node ran when it did.", metavar="NODE")
]
EveryHook = Annotated[
    bool,
    _question("--hooks", help="List every hook: where it was registered, how often it was called."),
]
WhoHolds = Annotated[
    str | None,
    _question(
        help="Explain what keeps a parameter, tensor, node or 'step 3' in memory.", metavar="WHAT"
    ),
]
MemoryUse = Annotated[
    bool,
    _question(
        "--memory", help="Show the memory that saved tensors hold: the peak, by line and module."
    ),
]
WhatCaptured = Annotated[
    bool,
    _question(
        "--captured",
        help="Show which captured steps were replayed and fused, which were not, and why.",
    ),
]
WhatCompiled = Annotated[
    bool,
    _question(
        "--compiled",
        help="Show what is inside regions of torch.compile, and why it broke and recompiled them.",
    ),
]
Limits = Annotated[
    bool,
    _question(
        "--roofline", help="Compare the time of each operation with the limits of this machine."
    ),
]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question, and its subject."""

    question: str  # name of its option: "grad-of"
    of: str = ""


def one_asked(given: Mapping[str, str | bool | None]) -> AskedQuestion | None:
    """The question in the parameters of `inspect`, if any."""
    asked = [
        AskedQuestion(name.replace("_", "-"), "" if value is True else str(value))
        for name, value in given.items()
        if value not in (None, False)
    ]
    if len(asked) > 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"inspect answers one question at a time; choose one of {options}")
    return asked[0] if asked else None


def answer_to(trace: Trace, asked: AskedQuestion) -> Answer:
    from gradscope.commands.options.peaks import measured
    from gradscope.scene.answers.captured import captures
    from gradscope.scene.answers.grad_of import grad_of
    from gradscope.scene.answers.holders import who_holds
    from gradscope.scene.answers.memory_use import memory
    from gradscope.scene.answers.order import order
    from gradscope.scene.answers.registered_hooks import hooks
    from gradscope.scene.answers.roofline import costs
    from gradscope.scene.answers.things import chosen_node, chosen_op, chosen_tensor
    from gradscope.scene.answers.why_none import why_none
    from gradscope.scene.graph.blocks.region_words import compiled_regions

    answers: dict[str, Callable[[Trace, str], Answer]] = {
        "node": chosen_node,
        "tensor": chosen_tensor,
        "op": chosen_op,
        "why-none": why_none,
        "grad-of": grad_of,
        "order": order,
        "who-holds": who_holds,
        "hooks": hooks,
        "memory": memory,
        "captured": captures,
        "compiled": compiled_regions,
        "roofline": lambda of, _: costs(of, measured()),
    }
    return answers[asked.question](trace, asked.of)


def show_answer(
    trace: Trace, asked: AskedQuestion, out: Terminal, rows: int | None, *, as_json: bool
) -> None:
    """Answer a question on one screen, with `rows` lines in each section (0: all), or as JSON."""
    from rich.text import Text

    from gradscope.analysis.answers.roofline import Roofline
    from gradscope.render.terminal.roof import roof_lines
    from gradscope.render.views.answers import answer_json, answer_lines

    with working():
        answer = answer_to(trace, asked)
    if as_json:
        write_bytes(f"{answer_json(answer, asked.question, asked.of)}\n".encode())
    else:
        if isinstance(answer.data, Roofline):
            out.show(map(Text, roof_lines(answer.data, out.width, out.charset)))
        out.show(answer_lines(answer, out.width, out.charset, rows))
