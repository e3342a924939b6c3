"""What the program does with the handle that an asynchronous collective returns.

The first method that it calls counts, because all of them show when the collective is complete. The
handle itself is not kept alive.

# Note [Handles written in Python]
A class of handles may be written in Python. When C++ calls a method of such a handle, it looks for
a method in Python, and would take ours for it; ours calls the original, which would look again. A
function of the same name that has the handle as first argument ends this.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from weakref import ref

import torch.distributed as dist

from gradscope.watch.in_place.by_identity import is_a
from gradscope.watch.in_place.standing_in import Replaced, passed_over, raw

if TYPE_CHECKING:
    from gradscope.watch.in_place.faults import Faults
    from gradscope.watch.listener import Listener

METHODS = (
    "wait", "is_completed", "is_success", "synchronize", "get_future", "get_future_result",
    "exception", "block_current_stream",
)  # fmt: skip
"""Methods of a handle after which the program may know that the collective is complete."""


class WorkHandles:
    """Replaces these methods, and remembers handles until one is called."""

    def __init__(self, listener: Listener, faults: Faults) -> None:
        self._listener, self._faults = listener, faults
        self._waiting: dict[int, tuple[ref[Any], Any]] = {}  # the token of its span, by id()

    def put(self, replaced: Replaced) -> None:
        """Replace the methods, until all that is replaced is taken back."""
        for name in METHODS:
            own = raw(dist.Work, name)
            if own is not None:
                replaced.put(dist.Work, name, self._told(name, own))

    def returned(self, token: Any, result: Any) -> None:
        """A collective returned this to the program."""
        if not is_a(result, dist.Work):
            return
        self._waiting = {at: each for at, each in self._waiting.items() if each[0]() is not None}
        self._waiting[id(result)] = ref(result), token
        self._listener.shared.handled(token, "returned", None)

    def _did(self, work: Any, name: str, frame: Any) -> None:
        known = self._waiting.pop(id(work), None)
        if known is not None and known[0]() is work:
            self._listener.shared.handled(known[1], name, frame)

    def _told(self, name: str, own: Any) -> Any:
        guarded, did, waiting = self._faults.guarded, self._did, self

        def method(work: Any, *given: Any, **more: Any) -> Any:
            result = own(work, *given, **more)
            if id(work) in waiting._waiting:
                guarded("a handle was used", did, work, name, sys._getframe(1))
            return result

        # See Note [Handles written in Python].
        method.__code__ = method.__code__.replace(co_name=name)
        return passed_over(method)
