"""Names of tensors in the user's code."""

from __future__ import annotations

import sys
from inspect import CO_OPTIMIZED
from sys import getrefcount
from types import FrameType
from typing import TYPE_CHECKING, Any
from weakref import ref

from gradscope.record.notes.log import take_all
from gradscope.record.notes.sites import caller_of, is_ours
from gradscope.trace.schema import Tensor
from gradscope.watch.in_place.by_identity import attributes

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator
    from types import CodeType

    from gradscope.trace.writer import Writer

SNAPSHOTS = sys.version_info < (3, 13)
"""Whether reading the variables of a frame leaves a copy of them in it."""


def _held_once() -> int:
    """Reference count of such a copy when only the frame and the caller hold it."""
    found = sys._getframe().f_locals
    return getrefcount(found)


NOBODYS = _held_once()

MANY = 1 << 16
"""More than the number of frames."""


def local_name(tensor: Any, frame: FrameType | None) -> str:
    """The name of a leaf, if it is a variable of the calling function or of its module."""
    frame = _of_user(frame)
    if frame is None or not is_leaf(tensor):
        return ""
    for scope in (variables_of(frame), frame.f_globals):
        for name, value in list(scope.items()):
            if value is tensor:
                return name
    return ""


def names_in(frame: FrameType | None) -> dict[int, str]:
    """Names of all local objects, by id()."""
    frame = _of_user(frame)
    if frame is None:
        return {}
    scopes = (frame.f_globals, variables_of(frame))
    return {id(value): name for scope in scopes for name, value in reversed(list(scope.items()))}


def names_around(
    frame: FrameType | None, is_machinery: Callable[[CodeType], bool], most: int
) -> dict[int, str]:
    """The names in this many frames of the program, from this one outwards; inner names first."""
    found: dict[int, str] = {}
    for name, value in _variables(frame, is_machinery, most):
        found.setdefault(id(value), name)
    return found


def module_name(
    module: Any, frame: FrameType | None, is_machinery: Callable[[CodeType], bool]
) -> str:
    """The variable that holds a module in its caller, or the attribute of an object there."""
    own: list[dict[str, Any]] = []
    for name, value in _variables(frame, is_machinery, FRAMES):
        if value is module and name != "self":
            return name
        if name == "self" and value is not module:
            own.append(attributes(value))
    return next((n for each in own for n, value in list(each.items()) if value is module), "")


def names_of(tensor: Any, frame: FrameType | None) -> set[str]:
    """All names of a tensor in frames from this one outwards: `w`, `0.weight`, `net.0.weight`.

    The second is a path within a module that a variable holds.
    """
    names: set[str] = set()
    for name, value in _variables(frame):
        if value is tensor:
            names.add(name)
        elif hasattr(type(value), "named_parameters") and hasattr(type(value), "named_modules"):
            paths = [path for path, each in value.named_parameters() if each is tensor]
            names.update(paths, (f"{name}.{path}" for path in paths))
    return names


def _variables(
    frame: FrameType | None, is_machinery: Callable[[CodeType], bool] = is_ours, most: int = MANY
) -> Iterator[tuple[str, Any]]:
    """Variables of this many frames of the program, from this one outwards, with globals."""
    known: set[int] = set()  # globals that were yielded
    while frame is not None and most:
        if not is_machinery(frame.f_code):
            most -= 1
            yield from list(variables_of(frame).items())
            if id(frame.f_globals) not in known:
                known.add(id(frame.f_globals))
                yield from list(frame.f_globals.items())
        frame = caller_of(frame)


def _of_user(frame: FrameType | None) -> FrameType | None:
    while frame is not None and is_ours(frame.f_code):
        frame = caller_of(frame)
    return frame


def variables_of(frame: FrameType) -> dict[str, Any]:
    """A frame's variables, without leaving a copy of them in it.

    The copy would keep objects alive that the program releases, until its function returns.
    """
    found = frame.f_locals
    copied = dict(found)
    # For a module or a class, these are the variables themselves; some copies are from `locals()`.
    if SNAPSHOTS and frame.f_code.co_flags & CO_OPTIMIZED and getrefcount(found) == NOBODYS:
        found.clear()
    return copied


FRAMES = 3
"""Number of frames that are searched, from the one that calls backward outwards."""


def _no_name(leaf: Any, number: int) -> str:
    """No leaf is filled by a library."""
    return ""


class LeafNames:
    """Finds names of leaves outside modules, at the first backward that reaches each leaf."""

    def __init__(self, writer: Writer, filled: Callable[[Any, int], str] = _no_name) -> None:
        self._writer = writer
        self._filled = filled  # returns the name of a leaf that a library fills from parameters
        self.nameless: list[tuple[ref[Any], int]] = []
        """Leaves that have not been searched for."""
        self._named: list[tuple[int, int]] = []

    def met(self, tensor: Any, number: int) -> None:
        """Called when a leaf gets a number."""
        if tensor.requires_grad and is_leaf(tensor):
            self.nameless.append((ref(tensor), number))

    def look(
        self,
        frame: FrameType | None,
        is_machinery: Callable[[CodeType], bool],
        has_one: Container[int],
    ) -> None:
        """Called when this frame calls backward; some leaves have names from modules."""
        waiting = [
            (leaf, number)
            for weak, number in take_all(self.nameless)
            if number not in has_one and (leaf := weak()) is not None
        ]
        names = names_around(frame, is_machinery, FRAMES) if waiting else {}
        for leaf, number in waiting:
            name = self._filled(leaf, number) or names.get(id(leaf))
            if name:
                self._named.append((number, self._writer.intern(name)))

    def flush(self) -> None:
        """Pass new names to the writer."""
        rows = take_all(self._named)
        if rows:
            numbers, names = zip(*rows, strict=True)
            self._writer.block(Tensor, {"id": [*numbers], "name": [*names]}, amend=True)


# Note [Views that make their nodes]
# A view of a tensor that was written to creates its node when `grad_fn` or `is_leaf` is first read.
# We must not cause that: nodes that are created later run earlier.


def node_of(tensor: Any) -> Any:
    """The node of a tensor; for such a view, that of its base."""
    base = _written_base(tensor)
    return tensor.grad_fn if base is None else base.grad_fn


def is_leaf(tensor: Any) -> bool:
    """Whether it is a leaf; such views are not."""
    return _written_base(tensor) is None and bool(tensor.is_leaf)


def gradient_of(tensor: Any) -> Any:
    """Its `.grad`; None for a tensor that cannot have one, where reading `.grad` warns."""
    return tensor.grad if is_leaf(tensor) or tensor.retains_grad else None


def leaves_behind(nodes: list[Any], far: int) -> tuple[list[Any], bool]:
    """The leaves that a backward reaches from these nodes, and whether the list is complete.

    `far`: largest number of nodes that are visited.
    """
    leaves: list[Any] = []
    waiting, seen = list(nodes), set(nodes)
    while waiting and len(seen) < far:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return leaves, not waiting


def _written_base(tensor: Any) -> Any:
    """The base of a view, if that may have been written to since."""
    base = tensor._base if tensor._is_view() else None
    return base if base is not None and tensor._version else None
