"""The full-screen program: panels, keys and a command line."""

from __future__ import annotations

import os
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.containers import Horizontal
from textual.events import DescendantFocus, Key as Pressed
from textual.timer import Timer
from textual.widgets import Input, Static

from gradscope.analysis.report import inspect
from gradscope.debug.commands import held_by, meant
from gradscope.debug.completion import completions
from gradscope.debug.lines import ALL, MOVES, QUIT
from gradscope.debug.screen.board import Board
from gradscope.debug.screen.entries import PanelLine, answered, folded, heading
from gradscope.debug.screen.keys import BY_KEY, KEYS
from gradscope.debug.screen.looks import LOOKS, STYLE
from gradscope.debug.screen.panel_rows import Panel
from gradscope.debug.screen.panels import warm
from gradscope.debug.screen.prompt import Prompt
from gradscope.debug.screen.search import hit
from gradscope.debug.walk import Walk
from gradscope.errors import GradscopeError
from gradscope.render.terminal.cells import UNICODE
from gradscope.render.terminal.styles import ALARM, SOFT
from gradscope.scene.answers.answer import Answer
from gradscope.trace.schema import NONE

HINTS = ": command  , . step  < > node  { } backward  c r stop  y why  ? keys  q quit"
PLAYS = 0.25
"""Seconds between nodes during playback."""
HIGHEST = 0.7
"""Largest share of the screen that an answer covers."""


class Debugger(App[BaseException]):
    """The debugger on a full screen.

    `leaving`: exceptions of commands that end the app, as when a program goes on; `run` returns
    them.
    """

    CSS = STYLE
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = []

    def __init__(self, walk: Walk, leaving: tuple[type[BaseException], ...] = ()) -> None:
        # Textual would change colours to suit its own themes, which draws black on black in ours.
        super().__init__(ansi_color=True if "NO_COLOR" in os.environ else None)
        self.walk = walk
        self._leaving = leaving
        self._sign = ":"
        self._searched = ""
        self._move = "step"
        self._finding = -1
        self._playing: Timer | None = None
        self._answer: list[PanelLine] = []
        for each in LOOKS:
            self.register_theme(each)
        self.theme = LOOKS[0].name
        self.animation_level = "none"

    # -- contents ---------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        yield Board(self.walk)
        yield Panel("answer", "answer (Esc closes)")
        yield Static(id="said")
        with Horizontal(id="line"):
            yield Static(" ", id="sign")
            yield Prompt(lambda text: completions(self.walk, text), HINTS)

    def on_mount(self) -> None:
        self.board.give_keys(0)
        self.board.show()
        self.call_after_refresh(warm, self.walk)

    def on_resize(self) -> None:
        """Wrap the answer again; panels do so themselves."""
        if self._answering:
            self.open(self._answer)

    @property
    def _prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def board(self) -> Board:
        return self.query_one(Board)

    @property
    def _above(self) -> Panel:
        """The panel of answers, above the others."""
        return self.query_one("#answer", Panel)

    def say(self, text: str, style: str = "") -> None:
        """One line above the prompt."""
        fitting = UNICODE.fit(text, max(self.size.width, 1))
        self.query_one("#said", Static).update(Text(fitting, style, no_wrap=True), layout=False)

    # -- commands ---------------------------------------------------------------------------------

    def do(self, text: str) -> bool:
        """Run a command. Returns False after an error, which is shown."""
        name, _, rest = text.partition(" ")
        try:
            command = meant(name)
            if command.go is not None:
                self._arrived(held_by(command.go(self.walk, rest.strip())))
            else:
                self._told(command.do(self.walk, rest.strip()))
        except GradscopeError as error:
            self.say(f"error: {error}", ALARM)
            return False
        except self._leaving as leaving:
            self.exit(leaving)
            return False
        self.board.show()
        return True

    def _arrived(self, held: str) -> None:
        """Update the panels after a move."""
        self.close()
        self.board.way.at_hand()
        self.say(f"stopped at {held}" if held else "")

    def _told(self, said: Answer) -> None:
        if said.facts or said.sections or said.notes:
            self.open([*answered(said)])
        else:
            self.say(said.title)

    def open(self, entries: list[PanelLine]) -> None:
        """Show an answer of several lines above the panels."""
        self._answer = entries
        rows = self._above
        rows.display = True
        parts = folded(entries, UNICODE, max(self.size.width - 1, 1))
        rows.styles.height = min(len(parts) + 1, max(int(self.size.height * HIGHEST), 4))
        rows.fill(parts, cursor=0)
        rows.scroll_to(y=0, animate=False)
        if self.focused is not self._prompt:
            rows.focus()

    def close(self) -> None:
        """Close the answer."""
        rows = self._above
        if rows.display:
            rows.display = False
            if self.focused is rows or self.focused is None:
                self.board.give_keys(0)

    @on(Input.Submitted)
    def _typed(self, message: Input.Submitted) -> None:
        text = message.value.strip()
        self._prompt.put("")
        self._prompt.remember(text)
        if self._sign == "/":
            self._searched = text or self._searched
            self._back_to_panels()
            self.turn(forward=True)
            return
        self.take(text or self._move)

    def take(self, text: str) -> None:
        if text in QUIT:
            self.exit()
            return
        name, _, rest = text.partition(" ")
        if name == ALL and rest.strip():
            text = rest.strip()
        self.say("…", SOFT)  # some answers take a while
        self.call_after_refresh(self._take, text)

    def _take(self, text: str) -> None:
        self.say("")
        if self.do(text) and meant(text.partition(" ")[0]).name in MOVES:
            self._move = text

    # -- keys -------------------------------------------------------------------------------------

    def on_key(self, event: Pressed) -> None:
        """Handle keys that no panel and no prompt has handled."""
        does = BY_KEY.get(event.character or "") or BY_KEY.get(event.key)
        if does is None or self.focused is self._prompt:
            return
        event.stop()
        if does is not BY_KEY[" "]:
            self._pause()
        if callable(does):
            does(self)
        else:
            self.do(does)

    def action_help_quit(self) -> None:
        """Ctrl+C clears the prompt."""
        self._pause()
        self._prompt.put("")
        self.say("q leaves the debugger")

    def ask(self, sign: str = ":", begun: str = "") -> None:
        """Open the prompt for a command or a search."""
        self._pause()
        self._sign = sign
        self.query_one("#sign", Static).update("(gradscope) " if sign == ":" else "search ")
        self._prompt.placeholder = ""
        self._prompt.put(begun)
        self._prompt.focus()

    @on(DescendantFocus, "#prompt")
    def _clicked(self) -> None:
        if self._prompt.placeholder:
            self.ask()

    @on(Prompt.Left)
    def _back_to_panels(self) -> None:
        self._sign = ":"
        self.query_one("#sign", Static).update(" ")
        self._prompt.placeholder = HINTS
        (self._above if self._answering else self.board.panels[0]).focus()

    @property
    def _answering(self) -> bool:
        return bool(self._above.display)

    @on(Prompt.Paged)
    def _paged(self, message: Prompt.Paged) -> None:
        self._above.action_page(message.by)

    @on(Prompt.Said)
    def _offered(self, message: Prompt.Said) -> None:
        self.say(message.text, SOFT)

    def turn(self, *, forward: bool) -> None:
        """Go to the next or previous hit of the search."""
        if not self._searched:
            self.say("no search yet: / starts one")
            return
        try:
            moment = hit(self.walk, self._searched, forward=forward)
        except GradscopeError as error:
            self.say(f"error: {error}", ALARM)
            return
        if moment == NONE:
            self.say(f"no {self._searched} {'after' if forward else 'before'} this moment")
        elif self.do(f"goto {moment}"):
            self.say(f"found {self._searched}")

    def why(self) -> None:
        """Explain why the node in the panel ran when it did."""
        self.do(f"why {self.board.way.node}" if self.board.way.node != NONE else "why")

    def finding(self, by: int) -> None:
        """Go to the next or previous finding."""
        found = self.walk.trace.once(inspect).findings
        if not found:
            self.say("inspect has no findings in this trace")
            return
        self._finding = (max(self._finding, 0 if by < 0 else -1) + by) % len(found)
        chosen = found[self._finding]
        if self.do(f"goto #{chosen.id}"):
            self.say(f"finding {self._finding + 1} of {len(found)}: {chosen.rule} {chosen.message}")

    def play(self) -> None:
        """Play from node to node; any key stops it."""
        if self._playing is None:
            self._playing = self.set_interval(PLAYS, self._plays)
        else:
            self._pause()

    def _plays(self) -> None:
        self.do("next")
        if self.walk.moment == self.walk.last:
            self._pause()

    def _pause(self) -> None:
        if self._playing is not None:
            self._playing.stop()
            self._playing = None

    def keys(self) -> None:
        wide = max(len(each.shown) for each in KEYS)
        lines = [PanelLine(f"{each.shown.ljust(wide)}  {each.says}") for each in KEYS]
        self.open([heading("keys; :help lists the commands"), *lines])

    def leave(self) -> None:
        self.close()
        self.board.only(None)

    def action_focus_next(self) -> None:
        """Tab: focus the next panel."""
        self._next_panel(1)

    def action_focus_previous(self) -> None:
        """Shift+Tab: focus the previous panel."""
        self._next_panel(-1)

    def _next_panel(self, by: int) -> None:
        seen = [each for each in (*self.board.panels, self._above) if each.display]
        at = seen.index(self.focused) if self.focused in seen else -1
        seen[(at + by) % len(seen)].focus()

    def enlarge(self) -> None:
        """Show only the focused panel."""
        if self.focused in self.board.panels:
            self.board.only(self.focused)

    def look(self) -> None:
        names = [each.name for each in LOOKS]
        self.theme = names[(names.index(self.theme) + 1) % len(names)]
        self.say(f"colours: {self.theme}")

    @on(Panel.Chosen)
    def _chosen(self, message: Panel.Chosen) -> None:
        if message.entry.command:
            self.do(message.entry.command)
