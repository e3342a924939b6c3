"""Every key of the panels: those of the page (`gradscope view`), and what a command line adds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.debug.screen.app import Debugger


@dataclass(frozen=True, slots=True)
class Key:
    """One or two keys that belong together. `does`: what each types, or does itself."""

    shown: str
    says: str
    does: dict[str, str | Callable[[Debugger], None]]


KEYS = (
    Key(":", "a command; help lists them; Tab completes, ↑ ↓ bring back what was typed",
        {":": lambda app: app.ask()}),
    Key("/  n  N", "search, as in continue; next, previous hit",
        {"/": lambda app: app.ask("/"), "n": lambda app: app.turn(forward=True),
         "N": lambda app: app.turn(forward=False)}),
    Key(",  .", "one moment back, on", {",": "back", ".": "step"}),
    Key("<  >", "to the node that ran before, runs next", {"<": "previous", ">": "next"}),
    Key("{  }", "to the backward before, the next one",
        {"{": "reverse backward", "}": "continue backward"}),
    Key("i  o", "to where what runs began; to where it ends", {"i": "into", "o": "out"}),
    Key("r  c", "back, on to a breakpoint", {"r": "reverse", "c": "continue"}),
    Key("b  g", "set a breakpoint; go somewhere",
        {"b": lambda app: app.ask(":", "break "), "g": lambda app: app.ask(":", "goto ")}),
    Key("u", "undo the last move", {"u": "undo"}),
    Key("y", "why: of the node in its panel", {"y": lambda app: app.why()}),
    Key("x  X", "to the next, the previous finding",
        {"x": lambda app: app.finding(1), "X": lambda app: app.finding(-1)}),
    Key("Space  Home  End", "play, and stop; begin; end",
        {" ": lambda app: app.play(), "home": "goto start", "end": "goto end"}),
    Key("1 … 5  Tab", "events, queue, node, source, and the last: values, findings, .grads, saved",
        {str(number): lambda app, number=number: app.board.give_keys(number - 1)  # type: ignore[misc]
         for number in range(1, 6)}),
    Key("↑ ↓  PgUp PgDn", "in a panel: another line; Enter goes there, or shows that node", {}),
    Key("↑ ↓ ← →", "in the node panel: against and along the gradient; to siblings", {}),
    Key("← →", "in the last panel: what it shows", {}),
    Key("f", "back to the node at hand", {"f": lambda app: app.board.follow()}),
    Key("+  −  0", "the panel alone; all of them",
        {"+": lambda app: app.enlarge(), "=": lambda app: app.enlarge(),
         "-": lambda app: app.board.only(None), "0": lambda app: app.board.only(None)}),
    Key("t", "the terminal's colours, light, dark", {"t": lambda app: app.look()}),
    Key("Esc  ?  q", "leave; this list; quit",
        {"escape": lambda app: app.leave(), "?": lambda app: app.keys(),
         "q": lambda app: app.exit()}),
)  # fmt: skip

BY_KEY = {name: does for key in KEYS for name, does in key.does.items()}
