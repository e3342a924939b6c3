"""Handles that remove hooks."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, ClassVar, Self

from gradscope.runtime.core.state.forking import renewed

_counting = renewed(Lock())


class RemovableHandle:
    """Removes a hook from its dict, and its number from all dicts of options."""

    next_id: ClassVar[int] = 0

    id: int
    hooks_dict_ref: Callable[[], Any]
    extra_dict_ref: tuple[Callable[[], Any], ...]

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self._count()
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict
        self.extra_dict_ref = tuple(map(weakref.ref, extra)) if isinstance(extra, list) else ()

    def _count(self, number: int | None = None) -> None:
        """Take the next number, or reserve one that is in use (in a pickle)."""
        with _counting:
            self.id = RemovableHandle.next_id if number is None else number
            RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    @classmethod
    def added(cls, hooks: Any, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a hook to a dict of hooks, and return its handle."""
        handle = cls(hooks)
        hooks[handle.id] = hook
        return handle

    def remove(self) -> None:
        """Remove the hook. Does nothing if it is already gone."""
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            found = reference()
            if found is not None:
                found.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, number, *more = state
        nobodys: OrderedDict[int, Any] = OrderedDict()
        self.hooks_dict_ref = weakref.ref(nobodys if hooks is None else hooks)
        self._count(number)
        self.extra_dict_ref = tuple(map(weakref.ref, more[0])) if more and more[0] else ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()
