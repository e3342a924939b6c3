"""The panels of the current moment."""

from __future__ import annotations

from rich.cells import cell_len
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from gradscope.debug.screen.entries import folded
from gradscope.debug.screen.graph_way import GraphWay
from gradscope.debug.screen.panel_rows import NodeRows, Panel, TabRows
from gradscope.debug.screen.panels import TABS, Events, neighbours, place, queue, source, tab
from gradscope.debug.screen.program_lines import ProgramLines
from gradscope.debug.walk import Walk
from gradscope.render.terminal.cells import UNICODE, line
from gradscope.scene.answers.state import title
from gradscope.scene.moments import MomentWords
from gradscope.trace.schema import NONE

PANELS = ("events", "queue", "node", "source", "more")
"""Panels by the number of the key that focuses them."""


class Board(Vertical):
    """The panels of a moment; only the displayed node can be changed here."""

    def __init__(self, walk: Walk) -> None:
        super().__init__(id="board")
        self.walk = walk
        self.way = GraphWay(walk)
        self._events = Events(walk)
        self._lines = ProgramLines(walk.trace)
        self._tab = TABS[0]

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        with Horizontal():
            with Vertical(id="left"):
                yield Panel("events", "1 events")
                yield Panel("queue", "2 queue")
            with Vertical(id="right"):
                yield NodeRows("node", "3 node")
                yield Panel("source", "4 source")
                yield TabRows("more", "5")

    @property
    def panels(self) -> list[Panel]:
        """All panels, by number."""
        return [self.query_one(f"#{name}", Panel) for name in PANELS]

    def show(self) -> None:
        state = self.walk.state
        width = max(self.app.size.width, 1)
        head, where = title(state, self.walk.trace.once(MomentWords)), place(state)
        room = width - len(where) - 2
        if where and cell_len(UNICODE.text(head)) <= room:
            head = f"{UNICODE.fit(head, room)}  {where}"
        shown = line(UNICODE.fit(head, width))
        self.query_one("#title", Static).update(shown, layout=False)
        events, *others = self.panels
        events.fill(self._events, cursor=self.walk.moment)
        for each in others:
            self._fill(each)

    def _fill(self, rows: Panel) -> None:
        if not rows.display:
            return
        state, node = self.walk.state, self.way.node
        if rows.id == "queue":
            entries = list(queue(state))
        elif rows.id == "node":
            self.way.found, entries = neighbours(state, node)
        elif rows.id == "source":
            rows.fill(source(state, node, self._lines), cursor=0)
            return
        else:
            names = (f"‹{name}›" if name == self._tab else name for name in TABS)
            rows.border_title = f"5 {'  '.join(names)}"
            entries = tab(self.walk, self._tab, node)
        rows.fill(folded(entries, UNICODE, rows.inner_width))

    @on(Panel.Resized)
    def _resized(self, message: Panel.Resized) -> None:
        rows = message.rows
        if rows.id == "events":
            rows.fill(self._events, cursor=rows.cursor)
        else:
            self._fill(rows)

    # -- panels -----------------------------------------------------------------------------------

    def give_keys(self, number: int) -> None:
        """Focus a panel, by its number from 0."""
        panel = self.panels[number]
        if not panel.display:
            self.only(None)
        panel.focus()

    def only(self, alone: object) -> None:
        """Show only this panel, or with None all of them."""
        for each in self.panels:
            each.display = alone is None or each is alone
        for side in self.query("#left, #right"):
            side.display = any(each.display for each in side.query(Panel))
        self.call_after_refresh(self.show)

    @on(TabRows.Turned)
    def _turned(self, message: TabRows.Turned) -> None:
        self._tab = TABS[(TABS.index(self._tab) + message.by) % len(TABS)]
        self.show()

    # -- the displayed node -----------------------------------------------------------------------

    @on(Panel.Chosen)
    def _chosen(self, message: Panel.Chosen) -> None:
        if message.entry.node != NONE:
            message.stop()
            self.way.to(message.entry.node)
            self.show()

    def follow(self) -> None:
        """Display the current node."""
        self.way.at_hand()
        self.show()

    @on(NodeRows.Along)
    def _along(self, message: NodeRows.Along) -> None:
        if self.way.go(message.way):
            self.show()
