"""An operator: its schema, and its kernels by dispatch key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from gradscope.runtime.core.dispatch.operators.keys import (
    AUTOGRAD_KEYS,
    BACKEND_KEYS,
    DispatchKey,
    DispatchKeySet,
    key_of,
)
from gradscope.runtime.core.dispatch.operators.schema import FunctionSchema


@dataclass(frozen=True, eq=False)
class Kernel:
    """A function for one operator and key, or for all operators at a key (boxed)."""

    function: Callable[..., Any]
    where: str  # "registered at file:line"
    with_keyset: bool = False
    boxed: bool = False
    kind: str = "kernel"

    def run(self, operator: Operator, keys: DispatchKeySet, args: Any, kwargs: Any) -> Any:
        first: list[Any] = [operator.overload] if self.boxed else []
        if self.with_keyset:
            first.insert(0, keys)
        return self.function(*first, *args, **kwargs)


def _never(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("a kernel that lets calls fall through is never called")


FALLTHROUGH = Kernel(_never, "built in", kind="fallthrough")

fallbacks: dict[DispatchKey, Kernel] = {}
"""Kernels at a key for all operators that have none there."""


class Operator:
    """One overload of an operator."""

    known: ClassVar[dict[str, Operator]] = {}
    changes: ClassVar[int] = 0  # number of kernel registrations and removals

    def __init__(self, schema: FunctionSchema, where: str, tags: tuple[Any, ...] = ()) -> None:
        self.schema = schema
        self.where = where
        self.tags = tags
        self.kernels: dict[DispatchKey, Kernel] = {}
        self.fake: Callable[..., Any] | None = None
        self.overload: Any = None  # what users call
        self._table: dict[DispatchKey, Kernel | None] = {}
        self._made_at = -1

    @property
    def name(self) -> str:
        overload = self.schema.overload_name
        return f"{self.schema.name}.{overload}" if overload else self.schema.name

    def kernel(self, key: DispatchKey) -> Kernel | None:
        """The kernel of a call at this key. Cached until a registration changes it."""
        if self._made_at != Operator.changes:
            self._table, self._made_at = {}, Operator.changes
        if key not in self._table:
            self._table[key] = self._resolve(key)
        return self._table[key]

    def _resolve(self, key: DispatchKey) -> Kernel | None:
        own = self.kernels.get(key)
        if own is not None:
            return own
        backend, autograd = key in BACKEND_KEYS.keys, key in AUTOGRAD_KEYS.keys
        aliases: list[str] = []
        if backend:
            aliases += ["CompositeExplicitAutogradNonFunctional", "CompositeExplicitAutograd"]
        if backend or (autograd and not self._has_backend(key)):
            aliases.append("CompositeImplicitAutograd")
        if autograd:
            aliases.append("Autograd")
        if key.name == "Meta" and self.fake is not None:
            return Kernel(self.fake, self.where, kind="fake")
        for alias in aliases:
            found = self.kernels.get(key_of(alias))
            if found is not None:
                return found
        if key in fallbacks:
            return fallbacks[key]
        if backend:
            return None
        if autograd:
            from gradscope.runtime.core.dispatch.operators.autograd_fallback import BELOW_AUTOGRAD

            return BELOW_AUTOGRAD
        return FALLTHROUGH

    def _has_backend(self, key: DispatchKey) -> bool:
        """Whether the backend of an autograd key has a kernel that autograd need not handle."""
        named = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
        keys = {key_of(key.name.removeprefix("Autograd")), *map(key_of, named)}
        return bool(keys & self.kernels.keys())

    def register(self, key: DispatchKey, kernel: Kernel) -> Kernel | None:
        """Register this kernel. Returns the previous one."""
        before = self.kernels.get(key)
        self.kernels[key] = kernel
        Operator.changes += 1
        return before

    def remove(self, key: DispatchKey, kernel: Kernel) -> None:
        if self.kernels.get(key) is kernel:
            del self.kernels[key]
            Operator.changes += 1

    def use_fake(self, function: Callable[..., Any]) -> None:
        """Use a function for tensors without data."""
        self.fake = function
        Operator.changes += 1

    def table(self) -> str:
        """The kernels at each key, one line each."""
        lines = []
        for key in reversed(DispatchKey.order):
            found = self.kernel(key)
            if found is FALLTHROUGH or found is None:
                lines.append(f"{key}: {'fallthrough' if found else 'missing'}")
                continue
            kind = "backend fallback" if fallbacks.get(key) is found else found.kind
            lines.append(f"{key}: {found.where} [{kind}]")
        return "\n".join(lines) + "\n"


def registered_fallback(key: DispatchKey, kernel: Kernel) -> None:
    fallbacks[key] = kernel
    Operator.changes += 1


def removed_fallback(key: DispatchKey, kernel: Kernel) -> None:
    if fallbacks.get(key) is kernel:
        del fallbacks[key]
        Operator.changes += 1
