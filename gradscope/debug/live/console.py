"""A Python console where a program has stopped, with its tensors."""

from __future__ import annotations

import code
import sys
import traceback
from contextlib import redirect_stdout
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.debug.walk import Walk
    from gradscope.record.stops.stop_places import StopPlace

SAVED = "_saved_"
BANNER = "gs.node, gs.grads, gs.made, gs.saved, gs.queue; Ctrl-D goes back to the debugger"


class ConsoleNames(SimpleNamespace):
    """The names available as `gs`."""

    def __init__(self, place: StopPlace, walk: Walk) -> None:
        super().__init__(place=place, walk=walk, trace=walk.trace, node=place.node)
        self.grads = place.given if place.kind in ("begins", "ran") else ()
        self.given, self.made, self.error = place.given, place.made, place.error

    @property
    def saved(self) -> dict[str, Any]:
        """The saved values of the node, as far as they can be read."""
        found = {}
        for name in dir(self.node):
            if name.startswith(SAVED) or name == "saved_tensors":
                try:
                    found[name.removeprefix(SAVED)] = getattr(self.node, name)
                except RuntimeError as error:  # it has been released
                    found[name.removeprefix(SAVED)] = str(error).partition(".")[0]
        return found

    @property
    def queue(self) -> list[str]:
        """The names of the nodes in the queue, the next one first."""
        from gradscope.analysis.identity.names import node_names  # noqa: PLC0415 -- when asked

        backward = self.walk.state.backward
        names = node_names(self.trace)
        return [] if backward is None else [names.of(each.node) for each in backward.queued]


def frame_of(place: StopPlace) -> FrameType | None:
    """The frame of the forward line of the node, if alive, or else of the caller."""
    file = place.line.rpartition(":")[0]
    frame = place.frame
    while place.node is not None and frame is not None:
        if Path(frame.f_code.co_filename).absolute() == Path(file):
            return frame
        frame = frame.f_back
    return place.frame


def scope_of(place: StopPlace, walk: Walk) -> dict[str, Any]:
    """The namespace of the console; assignments last until the program goes on."""
    frame = frame_of(place)
    names = {} if frame is None else {**frame.f_globals, **frame.f_locals}
    return {**names, "gs": ConsoleNames(place, walk)}


def run(text: str, scope: dict[str, Any], out: TextIO) -> None:
    """Run a line, and show its value or exception."""
    try:
        compiled, is_expression = _compiled(text)
        with redirect_stdout(out):
            value = eval(compiled, scope)  # noqa: S307  running what the user types is what it is for
            if is_expression or value is not None:
                out.write(f"{value!r}\n")
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  whatever it is, it is the user's to see
        lines = traceback.format_exception_only(error)
        out.write("".join(lines))


def _compiled(text: str) -> tuple[CodeType, bool]:
    try:
        return compile(text, "<gradscope>", "eval"), True
    except SyntaxError:
        return compile(text, "<gradscope>", "exec"), False


def talk(scope: dict[str, Any]) -> None:
    """A Python prompt, until the user ends it."""
    code.InteractiveConsole(scope).interact(banner=BANNER, exitmsg="")
    sys.stdout.flush()
