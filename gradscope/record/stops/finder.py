"""What looks for something in a recording while it runs: `--around`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gradscope.record.recording import Recording


class Finder(Protocol):
    """Calls `stop` when something is found in a recording, until `rest`."""

    def watch(self, recording: Recording, stop: Callable[[], None]) -> None:
        """Look for it from now on."""

    def rest(self) -> None:
        """Stop looking."""
