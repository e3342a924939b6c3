"""A panel of lines that scroll, with a cursor. Only visible lines are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.events import Click, Resize
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gradscope.debug.screen.entries import PanelLine
from gradscope.render.terminal.cells import UNICODE, line

AROUND = 3
"""Number of visible lines before and after the cursor."""
AT_HAND = Style(reverse=True)


class Panel(ScrollView, can_focus=True, inherit_bindings=False):
    """One panel. Enter, or a second click, selects the line at the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Chosen(Message):
        """A line was selected."""

        def __init__(self, rows: Panel, entry: PanelLine) -> None:
            super().__init__()
            self.rows = rows
            self.entry = entry

    class Resized(Message):
        """The size of the panel changed: its lines may have to be wrapped again."""

        def __init__(self, rows: Panel) -> None:
            super().__init__()
            self.rows = rows

    def __init__(self, id: str, title: str) -> None:
        super().__init__(id=id)
        self.border_title = title
        self.entries: Sequence[PanelLine] = ()
        self.cursor = 0

    def fill(self, entries: Sequence[PanelLine], *, cursor: int | None = None) -> None:
        """Show these lines; `cursor`: the line of the cursor."""
        self.entries = entries
        self.virtual_size = Size(self.inner_width, len(entries))
        last = max(len(entries) - 1, 0)
        self.cursor = min(self.cursor if cursor is None else cursor, last)
        if cursor is not None:
            self._show(self.cursor)
        self.refresh()

    @property
    def inner_width(self) -> int:
        return max(self.scrollable_content_region.width, 1)

    @property
    def at_hand(self) -> PanelLine | None:
        """The line at the cursor."""
        return self.entries[self.cursor] if self.cursor < len(self.entries) else None

    # -- moving -----------------------------------------------------------------------------------

    def action_move(self, by: int) -> None:
        """Move the cursor to the next or previous entry."""
        place = self.cursor + by
        while 0 < place < len(self.entries) and self.entries[place].further:
            place += by
        self._to(place)

    def action_page(self, by: int) -> None:
        """Move the cursor by a page."""
        self._to(self.cursor + by * max(self.scrollable_content_region.height - 1, 1))

    def action_choose(self) -> None:
        """Select the line at the cursor."""
        if self.at_hand is not None:
            self.post_message(self.Chosen(self, self.at_hand))

    def _to(self, place: int) -> None:
        self.cursor = min(max(place, 0), max(len(self.entries) - 1, 0))
        self._show(self.cursor)
        self.refresh()

    def _show(self, place: int) -> None:
        """Scroll as little as needed to show this line and some around it."""
        height = max(self.scrollable_content_region.height, 1)
        around = min(AROUND, (height - 1) // 2)
        top = self.scroll_offset.y
        if place - around < top:
            top = place - around
        elif place + around >= top + height:
            top = place + around - height + 1
        self.scroll_to(y=min(max(top, 0), max(len(self.entries) - height, 0)), animate=False)

    def on_click(self, event: Click) -> None:
        """Move the cursor to the clicked line; select it if it was there already."""
        at = event.get_content_offset(self)
        if at is None:
            return
        place = at.y + self.scroll_offset.y
        if place >= len(self.entries):
            return
        again = place == self.cursor
        self._to(place)
        if again or event.chain > 1:
            self.action_choose()

    def on_resize(self, _: Resize) -> None:
        self.virtual_size = Size(self.inner_width, len(self.entries))
        self.post_message(self.Resized(self))

    # -- drawing ----------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        place, width = y + self.scroll_offset.y, self.inner_width
        if place >= len(self.entries):
            return Strip.blank(width, self.rich_style)
        drawn = self._drawn(self.entries[place], width)
        strip = Strip(drawn.render(self.app.console)).adjust_cell_length(width)
        strip = strip.apply_style(self.rich_style)
        return strip.apply_style(AT_HAND) if self.has_focus and place == self.cursor else strip

    def _drawn(self, entry: PanelLine, width: int) -> Text:
        fitting = UNICODE.fit(f"{entry.sign}{entry.text}", width)
        return line((fitting, entry.style)) if entry.style else line(fitting)


class NodeRows(Panel, inherit_bindings=False):
    """The panel of a node: arrows go along the graph, as on the page."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "along('against')", show=False),
        Binding("down", "along('along')", show=False),
        Binding("left", "along('left')", show=False),
        Binding("right", "along('right')", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("enter", "choose", show=False),
    ]

    class Along(Message):
        """Go to another node of the graph."""

        def __init__(self, way: str) -> None:
            super().__init__()
            self.way = way

    def action_along(self, way: str) -> None:
        """Go against or along the gradient, or to a sibling."""
        self.post_message(self.Along(way))


class TabRows(Panel):
    """The last panel: left and right change its contents."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", show=False),
        Binding("right", "turn(1)", show=False),
    ]

    class Turned(Message):
        """A request to change the contents."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def action_turn(self, by: int) -> None:
        """Change to the next or previous contents."""
        self.post_message(self.Turned(by))
