"""All keys of the panels: those of the page (`gradscope view`), and others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradscope.debug.screen.app import Debugger


@dataclass(frozen=True, slots=True)
class Key:
    """Keys that belong together. `does`: the command or function of each."""

    shown: str
    says: str
    does: dict[str, str | Callable[[Debugger], None]]


KEYS = (
    Key(":", "command line; help lists commands; Tab completes, ↑ ↓ recall lines",
        {":": lambda app: app.ask()}),
    Key("/  n  N", "search, as in continue; next, previous hit",
        {"/": lambda app: app.ask("/"), "n": lambda app: app.turn(forward=True),
         "N": lambda app: app.turn(forward=False)}),
    Key(",  .", "one moment back, forward", {",": "back", ".": "step"}),
    Key("<  >", "to the previous, the next node that runs", {"<": "previous", ">": "next"}),
    Key("{  }", "to the previous, the next backward",
        {"{": "reverse backward", "}": "continue backward"}),
    Key("i  o", "to the start, the end of the running node", {"i": "into", "o": "out"}),
    Key("r  c", "back, forward to a breakpoint", {"r": "reverse", "c": "continue"}),
    Key("b  g", "set a breakpoint; go somewhere",
        {"b": lambda app: app.ask(":", "break "), "g": lambda app: app.ask(":", "goto ")}),
    Key("u", "undo the last move", {"u": "undo"}),
    Key("y", "why the node in panel 3 ran when it did", {"y": lambda app: app.why()}),
    Key("x  X", "to the next, the previous finding",
        {"x": lambda app: app.finding(1), "X": lambda app: app.finding(-1)}),
    Key("Space  Home  End", "play or stop; go to the start; the end",
        {" ": lambda app: app.play(), "home": "goto start", "end": "goto end"}),
    Key("1 … 5  Tab", "events, queue, node, source, and the last: values, findings, .grads, saved",
        {str(number): lambda app, number=number: app.board.give_keys(number - 1)  # type: ignore[misc]
         for number in range(1, 6)}),
    Key("↑ ↓  PgUp PgDn", "in a panel: select a line; Enter goes there, or shows the node", {}),
    Key("↑ ↓ ← →", "in the node panel: against, along the gradient; to siblings", {}),
    Key("← →", "in the last panel: change its contents", {}),
    Key("f", "back to the current node", {"f": lambda app: app.board.follow()}),
    Key("+  −  0", "only this panel; all panels",
        {"+": lambda app: app.enlarge(), "=": lambda app: app.enlarge(),
         "-": lambda app: app.board.only(None), "0": lambda app: app.board.only(None)}),
    Key("t", "the terminal's colours, light, dark", {"t": lambda app: app.look()}),
    Key("Esc  ?  q", "close; this list; quit",
        {"escape": lambda app: app.leave(), "?": lambda app: app.keys(),
         "q": lambda app: app.exit()}),
)  # fmt: skip

BY_KEY = {name: does for key in KEYS for name, does in key.does.items()}
