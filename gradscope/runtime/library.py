"""`torch.library`: users' operators, and kernels for existing ones.

In addition to PyTorch: `define_key(name)` creates a dispatch key, `included(key)` and
`left_out(key)` include or exclude it for the calls of a block.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from gradscope.runtime.core.dispatch.modes.aten import OpOverload, aten
from gradscope.runtime.core.dispatch.operators.built_in import is_built_in, operator_of, refresh
from gradscope.runtime.core.dispatch.operators.custom_op import CustomOpDef, custom_op, opdef_of
from gradscope.runtime.core.dispatch.operators.infer import infer_schema
from gradscope.runtime.core.dispatch.operators.key_dispatch import included, left_out
from gradscope.runtime.core.dispatch.operators.keys import DispatchKey, define_key, key_of
from gradscope.runtime.core.dispatch.operators.operator import (
    FALLTHROUGH,
    Kernel,
    Operator,
    registered_fallback,
    removed_fallback,
)
from gradscope.runtime.core.dispatch.operators.overloads import offer, withdraw
from gradscope.runtime.core.dispatch.operators.schema import parse_schema
from gradscope.runtime.core.dispatch.operators.snapshot import DEFINED, LIBRARIES
from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state.warned import warn_once

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "define_key",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "included",
    "infer_schema",
    "left_out",
    "register_autograd",
    "register_fake",
    "register_kernel",
]

RESERVED = frozenset({"prim"})


def fallthrough_kernel() -> None:
    """For `Library.impl`: calls skip the key."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _place(frame: FrameType) -> str:
    return f"registered at {frame.f_code.co_filename}:{frame.f_lineno}"


class Library:
    """One owner's registrations in a namespace. They are removed with the library.

    `kind` is DEF for the namespace's only library that defines operators, FRAGMENT for further ones
    that do, IMPL for one with kernels for existing operators.
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in RESERVED and kind != "IMPL":
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        where = _place(sys._getframe(1))
        if kind == "DEF":
            _claim(ns, where)
        self.ns = ns
        self.kind = kind
        self.dispatch_key = dispatch_key
        self._undo: list[Callable[[], None]] = []
        if kind == "DEF":
            self._undo.append(partial(_unclaim, ns, where))
        weakref.finalize(self, _undo_all, self._undo)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator: `lib.define("foo(Tensor x) -> Tensor")`. Returns its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        where = _place(sys._getframe(1))
        parsed = parse_schema(schema, self.ns)
        made = Operator(parsed, where, tuple(tags) if isinstance(tags, list | tuple) else (tags,))
        before = Operator.known.get(made.name)
        if before is not None:
            raise RuntimeError(
                f"Tried to register an operator ({parsed}) with the same name and overload name "
                "multiple times. Each overload's schema should only be registered with a single "
                f"call to def(). Duplicate registration: {where}. Original registration: "
                f"{before.where}"
            )
        Operator.known[made.name] = made
        offer(made)
        self._undo.append(lambda: _forget(made))
        return schema.partition("(")[0]

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Use a function as an operator's kernel for a key, until the library is removed."""
        if not callable(fn):
            raise TypeError(
                f"Input function is required to be a callable but found type {type(fn)}"
            )
        key = key_of(dispatch_key or self.dispatch_key or "CompositeImplicitAutograd")
        where = _place(sys._getframe(1))
        name = op_name.name() if isinstance(op_name, OpOverload) else str(op_name)
        name = name.partition("::")[2] if "::" in name else name
        for operator in _found(self.ns, name):
            kernel = FALLTHROUGH if fn is fallthrough_kernel else Kernel(fn, where, with_keyset)
            self._register(operator, key, kernel)
        refresh()

    def _register(self, operator: Operator, key: DispatchKey, kernel: Kernel) -> None:
        before = operator.register(key, kernel)
        if before is not None and not is_built_in(before):
            warn_once(
                "Warning only once for all operators,  other operators may also be overridden.\n"
                "  Overriding a previously registered kernel for the same operator and the same "
                f"dispatch key\n  operator: {operator.schema}\n    {operator.where}\n  dispatch "
                f"key: {key}\n  previous kernel: {before.where}\n       new kernel: {kernel.where}"
            )

        def undo() -> None:
            operator.remove(key, kernel)
            if before is not None and key not in operator.kernels:
                operator.register(key, before)
            refresh()

        self._undo.append(undo)

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Use a function for all operators without a kernel at a key.

        It receives the operator as first argument: `fn(op, *args, **kwargs)`.
        """
        if self.ns != "_":
            raise RuntimeError(
                f"fallback(...): Fallback registration using a library fragment is only supported "
                f"for the wildcard namespace '_', not '{self.ns}'"
            )
        key = key_of(dispatch_key or self.dispatch_key)
        where = _place(sys._getframe(1))
        kernel = FALLTHROUGH
        if fn is not fallthrough_kernel:
            kernel = Kernel(fn, where, with_keyset, boxed=True, kind="backend fallback")
        registered_fallback(key, kernel)

        def undo() -> None:
            removed_fallback(key, kernel)
            refresh()

        self._undo.append(undo)
        refresh()

    def _destroy(self) -> None:
        """Remove all registrations now."""
        _undo_all(self._undo)


@contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A library that is removed at the end of the block."""
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def _claim(ns: str, where: str) -> None:
    """Reserve a namespace for its only library of kind DEF."""
    if ns in DEFINED:
        raise RuntimeError(
            f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put "
            "all of your definitions in a single TORCH_LIBRARY block.  If you were trying to "
            "specify implementations, consider using TORCH_LIBRARY_IMPL (which can be duplicated)."
            "  If you really intended to define operators for a single namespace in a distributed "
            "way, you can use TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous "
            f"registration of TORCH_LIBRARY was {DEFINED[ns]}; latest registration was {where}"
        )
    from gradscope.runtime.core import ops

    if hasattr(sys.modules.get(f"{ops.__name__}.{ns}"), "__file__"):
        raise RuntimeError(
            f"the namespace '{ns}' is reserved: gradscope's runtime uses it; choose another name"
        )
    DEFINED[ns] = where


def _unclaim(ns: str, where: str) -> None:
    if DEFINED.get(ns) is where:
        del DEFINED[ns]


def _undo_all(undo: list[Callable[[], None]]) -> None:
    while undo:
        undo.pop()()


def _forget(operator: Operator) -> None:
    if Operator.known.get(operator.name) is operator:
        del Operator.known[operator.name]
        withdraw(operator)


def _found(ns: str, name: str) -> list[Operator]:
    """The operators of this name; a built-in one may have several rows."""
    if ns == "aten":
        base, _, overload = name.partition(".")
        rows = getattr(aten, base)._overloads.get(overload or "default")
        if rows is None:
            raise RuntimeError(_unknown(ns, name))
        return list({operator_of(row) for row in rows.rows})
    found = Operator.known.get(f"{ns}::{name}")
    if found is None:
        raise RuntimeError(_unknown(ns, name))
    return [found]


def _unknown(ns: str, name: str) -> str:
    known = [n.partition("::")[2] for n in Operator.known if n.startswith(f"{ns}::")]
    return f"there is no operator {ns}::{name}{missing.nearest(name, known)}"


# -- functions over libraries ------------------------------------------------------------------


def _library(ns: str) -> Library:
    """The permanent library for functions that are called without one."""
    if ns not in LIBRARIES:
        LIBRARIES[ns] = Library(ns, "FRAGMENT")
    made: Library = LIBRARIES[ns]
    return made


def _split(qualname: str) -> tuple[str, str]:
    ns, found, name = qualname.partition("::")
    if not found:
        raise ValueError(f"Expected `qualname` to be of the form 'namespace::name'. Got {qualname}")
    return ns, name


def define(qualname: str, schema: str, *, lib: Library | None = None, tags: Any = ()) -> None:
    """Define an operator: `define("mine::foo", "(Tensor x) -> Tensor")`."""
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got "
            f"{type(qualname)}"
        )
    ns, name = _split(qualname)
    if not schema.lstrip().startswith("("):
        raise ValueError(
            f"define(qualname, schema, ...): expected schema to look like e.g. "
            f'"(Tensor x) -> Tensor" but got "{schema}"'
        )
    (lib or _library(ns)).define(name + schema, tags=tags)


def impl(
    qualname: str, types: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None
) -> Any:
    """Register a kernel for device types ("cpu", "default") or for a dispatch key."""
    ns, name = _split(qualname)
    names = {"cpu": "CPU", "sim": "Sim", "meta": "Meta", "default": "CompositeExplicitAutograd"}

    def register(function: Callable[..., Any]) -> None:
        for given in (types,) if isinstance(types, str) else types:
            key = names.get(given, given)
            if key == given and given in ("cuda", "mps", "xpu"):
                continue  # an unavailable device
            (lib or _library(ns)).impl(name, function, key)

    return register if func is None else register(func)


def register_kernel(
    op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Any:
    """Register a kernel for device types; None: for all."""
    found = opdef_of(op)
    if found is not None:
        return found.register_kernel(device_types, func)
    name = op.name() if isinstance(op, OpOverload) else op
    return impl(name, "default" if device_types is None else device_types, func, lib=lib)


def register_fake(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1
) -> Any:
    """Register a function that computes shapes only."""
    found = opdef_of(op)
    if found is not None:
        return found.register_fake(func)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for operator in _found(*_split(op.name() if isinstance(op, OpOverload) else op)):
            operator.use_fake(function)
        return function

    return register if func is None else register(func)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Register an operator's backward."""
    found = opdef_of(op)
    if found is not None:
        found.register_autograd(backward, setup_context=setup_context)
        return
    from gradscope.runtime.core.dispatch.operators.generated import autograd_kernel

    ns, name = _split(op.name() if isinstance(op, OpOverload) else op)
    for operator in _found(ns, name):
        kernel = autograd_kernel(operator, backward, setup_context)
        (lib or _library(ns)).impl(name, kernel, "Autograd", with_keyset=True)


def get_ctx() -> Any:
    raise RuntimeError(
        "get_ctx() can only be called inside a function registered with register_fake() whose "
        "sizes depend on data; in gradscope's runtime all sizes are known"
    )


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.library", name, __all__)
