"""The command line, with history and completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

REMEMBERED = 1_000


class Prompt(Input):
    """Enter runs, Tab completes, up and down recall lines, Esc leaves."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", show=False, priority=True),
        Binding("up", "before(-1)", show=False),
        Binding("down", "before(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("escape", "leave", show=False),
    ]

    class Said(Message):
        """The completions to choose from."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Left(Message):
        """The prompt lost the focus."""

    class Paged(Message):
        """A request to scroll the answer."""

        def __init__(self, by: int) -> None:
            super().__init__()
            self.by = by

    def __init__(self, complete: Callable[[str], list[str]], placeholder: str) -> None:
        super().__init__(id="prompt", compact=True, placeholder=placeholder, select_on_focus=False)
        self._complete = complete
        self._typed: list[str] = []
        self._at = 0

    def remember(self, text: str) -> None:
        """Add a line to the history."""
        if text and self._typed[-1:] != [text]:
            self._typed = [*self._typed[1 - REMEMBERED :], text]
        self._at = len(self._typed)

    def put(self, text: str) -> None:
        self.value = text
        self.cursor_position = len(text)

    def action_before(self, by: int) -> None:
        """Recall an earlier or later line."""
        self._at = min(max(self._at + by, 0), len(self._typed))
        self.put(self._typed[self._at] if self._at < len(self._typed) else "")

    def action_page(self, by: int) -> None:
        """Scroll the answer."""
        self.post_message(self.Paged(by))

    def action_leave(self) -> None:
        """Clear the line and leave."""
        self.put("")
        self.post_message(self.Left())

    def action_complete(self) -> None:
        """Complete as far as all completions agree, then list them."""
        found = self._complete(self.value)
        if not found:
            self.post_message(self.Said("no completion"))
            return
        agreed = _agreed(found)
        if agreed == self.value:
            words = [each.rstrip().rpartition(" ")[2] for each in found]
            self.post_message(self.Said(f"{len(words)}: {'  '.join(words)}"))
        self.put(agreed)


def _agreed(texts: list[str]) -> str:
    low, high = min(texts), max(texts)
    for place, character in enumerate(low):
        if character != high[place]:
            return low[:place]
    return low
