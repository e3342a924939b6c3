"""What `gradscope inspect` can be asked of one thing, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from gradscope.commands.options.output import write_bytes
from gradscope.errors import UsageError

if TYPE_CHECKING:
    from gradscope.render.terminal.terminal import Terminal
    from gradscope.scene.answers.answer import Answer
    from gradscope.trace.trace import Trace


ANode = Annotated[
    str | None, typer.Option(help="All that is known of a node: its id or name.", metavar="NODE")
]
ATensor = Annotated[
    str | None,
    typer.Option(help="All that is known of a tensor: its id or name.", metavar="TENSOR"),
]
AnOp = Annotated[
    str | None,
    typer.Option(help="All that is known of a forward call: its id or name.", metavar="OP"),
]
WhyNone = Annotated[
    str | None,
    typer.Option(help="Why a parameter's .grad is None: its name or id.", metavar="TENSOR"),
]
GradOf = Annotated[
    str | None,
    typer.Option(help="How a tensor's gradient came to be: its name or id.", metavar="TENSOR"),
]
WhyThen = Annotated[
    str | None, typer.Option(help="Why a node ran when it did: its id or name.", metavar="NODE")
]
EveryHook = Annotated[
    bool, typer.Option("--hooks", help="Every hook: where registered, how often called, what for.")
]
WhoHolds = Annotated[
    str | None,
    typer.Option(
        help="What keeps it in memory: a parameter, tensor, node, or 'step 3'; or what a name "
        "of the program keeps, as in --memory.",
        metavar="WHAT",
    ),
]
MemoryUse = Annotated[
    bool, typer.Option("--memory", help="What saved tensors keep: the peak, and whose it is.")
]


WhatCaptured = Annotated[
    bool,
    typer.Option(
        "--captured",
        help="What of captured steps was replayed, fused and saved, and what not, with its line.",
    ),
]


Limits = Annotated[
    bool,
    typer.Option(
        "--roofline",
        help="What each piece costs against its limit: arithmetic or memory, as measured now.",
    ),
]


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """One question, and of what."""

    question: str  # as its option is called: "grad-of"
    of: str = ""


def one_asked(given: Mapping[str, str | bool | None]) -> AskedQuestion | None:
    """The question that was asked, if one was; by the parameters of `inspect`."""
    asked = [
        AskedQuestion(name.replace("_", "-"), "" if value is True else str(value))
        for name, value in given.items()
        if value not in (None, False)
    ]
    if len(asked) > 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"inspect looks at one thing at a time: {options}")
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
        "roofline": lambda of, _: costs(of, measured()),
    }
    return answers[asked.question](trace, asked.of)


def show_answer(
    answer: Answer, asked: AskedQuestion, out: Terminal, rows: int | None, *, as_json: bool
) -> None:
    """Show it on one screen, or so many rows of each section (0: all), or as JSON."""
    from rich.text import Text

    from gradscope.analysis.answers.roofline import Roofline
    from gradscope.render.terminal.roof import roof_lines
    from gradscope.render.views.answers import answer_json, answer_lines

    if as_json:
        write_bytes(f"{answer_json(answer, asked.question, asked.of)}\n".encode())
    else:
        if isinstance(answer.data, Roofline):
            out.show(map(Text, roof_lines(answer.data, out.width, out.charset)))
        out.show(answer_lines(answer, out.width, out.charset, rows))
