"""The debugger as lines of text: commands and answers."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from gradscope.debug.commands import COMMANDS, answer
from gradscope.errors import GradscopeError
from gradscope.render.terminal.cells import line
from gradscope.render.terminal.styles import ALARM, BOLD
from gradscope.render.views.answers import ScreenSize, answer_lines

if TYPE_CHECKING:
    from gradscope.debug.walk import Walk
    from gradscope.render.terminal.terminal import Terminal

PROMPT = "(gradscope) "
ALL = "all"
"""Prefix of a command that shows its whole answer."""
QUIT = ("quit", "q", "exit")
MOVES = ("step", "back", "next", "previous", "continue", "reverse", "out", "into")
"""The commands that an empty line repeats."""


class Conversation(NamedTuple):
    """How a series of commands ended."""

    quits: bool  # by a command
    errors: int = 0


def converse(
    walk: Walk, commands: Iterable[str], out: Terminal, lines: int, *, echo: bool = False
) -> Conversation:
    """Answer commands until they end or one quits.

    `echo`: show each command, since it was not typed.
    """
    before, errors = "step", 0
    for text in commands:
        said = text.strip() or before
        if said in QUIT:
            return Conversation(quits=True, errors=errors)
        name = said.partition(" ")[0]
        found = COMMANDS.get(name)
        if found is not None and found.name in MOVES:
            before = said
        if echo:
            out.show([line(), line((out.charset.text(f"{PROMPT}{said}"), BOLD))])
        errors += not show(walk, said, out, lines)
    return Conversation(quits=False, errors=errors)


def show(walk: Walk, text: str, out: Terminal, lines: int) -> bool:
    """Answer one command. Returns False for an error, which is shown and has no effect."""
    name, _, rest = text.partition(" ")
    whole = name == ALL and bool(rest.strip())
    try:
        said = answer(walk, rest.strip() if whole else text)
    except GradscopeError as error:
        out.show([line((out.charset.text(f"error: {error}"), ALARM))])
        return False
    found = COMMANDS.get(name)
    whole = whole or bool(found and found.name == "list" and rest.strip())  # a number was given
    screen = ScreenSize(lines, f"{ALL} {text}", f"by {ALL} {text}")
    rows = 0 if whole else None
    out.show(answer_lines(said, out.width, out.charset, rows=rows, screen=screen))
    return True


def typed() -> Iterator[str]:
    """The typed lines, with history and completion if Python has readline."""
    with suppress(ImportError):
        import readline  # noqa: PLC0415 -- not everywhere

        names = sorted({each.name for each in COMMANDS.values()})
        readline.set_completer(lambda text, state: _completion(text, names, state))
        readline.parse_and_bind("tab: complete")
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            sys.stdout.write("\n")  # the prompt's line is open
            return
        except KeyboardInterrupt:
            sys.stdout.write("\n")  # what was typed is given up


def _completion(text: str, names: list[str], state: int) -> str | None:
    found = [f"{name} " for name in names if name.startswith(text)]
    return found[state] if state < len(found) else None
