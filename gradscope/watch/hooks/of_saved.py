"""Hooks that pack and unpack saved tensors."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._C._autograd import SavedTensor

from gradscope.watch.hooks.watched import HookedCalls, WatchedHook, is_watched
from gradscope.watch.in_place.standing_in import Replaced
from gradscope.watch.unseen import stands_for

PACK, UNPACK = "pack_hook", "unpack_hook"
PUSH, POP = "_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks"
REGISTER = "register_hooks"


class WatchedSavedHook(WatchedHook):
    """A pack or unpack hook. Its result does not replace a gradient."""

    __slots__ = ()
    _replaces = False


class SavedHooks:
    """Replaces what `saved_tensors_hooks` calls, and `register_hooks` of saved values."""

    def __init__(self, calls: HookedCalls) -> None:
        self._calls = calls
        self._replaced = Replaced(stands_for)
        self.active = 0
        """Number of pairs of hooks that apply to new nodes, on all threads."""
        self.registered = False  # whether the program has registered hooks on a saved value

    def start(self) -> None:
        """Start."""
        homes, pair = _HOMES, self._pair
        push, pop, register = (getattr(homes[name], name) for name in (PUSH, POP, REGISTER))

        def _push_saved_tensors_default_hooks(pack: Any, unpack: Any) -> Any:
            self.active += 1
            return push(*pair(pack, unpack))

        def _pop_saved_tensors_default_hooks() -> Any:
            self.active -= 1
            return pop()

        def register_hooks(self_: Any, pack: Any, unpack: Any) -> Any:
            self.registered = True
            return register(self_, *pair(pack, unpack))

        self._replaced.put(homes[PUSH], PUSH, _push_saved_tensors_default_hooks)
        self._replaced.put(homes[POP], POP, _pop_saved_tensors_default_hooks)
        self._replaced.put(homes[REGISTER], REGISTER, register_hooks)

    def stop(self) -> None:
        """Stop."""
        self._replaced.take_back()

    def _pair(self, pack: Any, unpack: Any) -> tuple[Any, Any]:
        watched = self._calls.faults.guarded("a hook was registered", self._watched, pack, unpack)
        return (pack, unpack) if watched is None else watched

    def _watched(self, pack: Any, unpack: Any) -> tuple[Any, Any] | None:
        if torch.compiler.is_compiling() or is_watched(pack) or is_watched(unpack):
            return None
        site = self._calls.listener.site(sys._getframe(4))
        calls = self._calls
        return WatchedSavedHook(pack, PACK, calls, site), WatchedSavedHook(
            unpack, UNPACK, calls, site
        )


_HOMES: dict[str, Any] = {PUSH: torch._C._autograd, POP: torch._C._autograd, REGISTER: SavedTensor}
