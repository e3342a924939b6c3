"""`torch.library.custom_op`: a user's function as one operator."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.dispatch.modes.aten import OpOverload
from gradscope.runtime.core.dispatch.operators.generated import (
    RegisteredBackward,
    autograd_kernel,
    written_arguments,
)
from gradscope.runtime.core.dispatch.operators.infer import infer_schema
from gradscope.runtime.core.dispatch.operators.key_dispatch import run, tensors_in
from gradscope.runtime.core.dispatch.operators.keys import key_of
from gradscope.runtime.core.dispatch.operators.operator import Kernel, Operator
from gradscope.runtime.core.dispatch.operators.overloads import offer, withdraw
from gradscope.runtime.core.dispatch.operators.schema import parse_schema
from gradscope.runtime.core.tensors.views.in_place import count_told_write

_definitions: dict[str, CustomOpDef] = {}


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an operator, which autograd treats as a whole."""
    where = f"registered at {_caller()}"

    def made(function: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(function, mutates_args=mutates_args) if schema is None else schema
        namespace, found, base = name.partition("::")
        if not found or not base:
            raise ValueError(f"Expected `qualname` to be of the form 'namespace::name'. Got {name}")
        definition = CustomOpDef(namespace, base, text, function, where, tags)
        if schema is not None:
            definition.check_written(mutates_args, schema)
        definition.register_kernel(device_types, function)
        return definition

    return made if fn is None else made(fn)


def _caller() -> str:
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def opdef_of(op: Any) -> CustomOpDef | None:
    """The definition of a custom operator, given itself, its overload, or its name."""
    if isinstance(op, CustomOpDef):
        return op
    name = op.name() if isinstance(op, OpOverload) else op
    return _definitions.get(name.removesuffix(".default"))


class CustomOpDef:
    """A custom operator. Call it like the function it was made from."""

    def __init__(
        self,
        namespace: str,
        name: str,
        schema: str,
        fn: Callable[..., Any],
        where: str,
        tags: Any = None,
    ) -> None:
        self._namespace, self._name = namespace, name
        self._schema = schema
        self._init_fn = fn
        self._kernels: dict[str | None, Callable[..., Any]] = {}
        self._disabled: set[str] = set()
        before = _definitions.get(self._qualname)
        if before is not None:  # a notebook's cell was run again
            withdraw(before._operator)
        marks = () if tags is None else tuple(tags) if isinstance(tags, list | tuple) else (tags,)
        self._operator: Operator = Operator(
            parse_schema(f"{name}{schema}", namespace), where, marks
        )
        Operator.known[self._qualname] = self._operator
        self._opoverload = offer(self._operator)
        self._formula: RegisteredBackward = self._register_autograd()
        _definitions[self._qualname] = self

    @property
    def _qualname(self) -> str:
        return f"{self._namespace}::{self._name}"

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._opoverload(*args, **kwargs)

    def check_written(self, mutates_args: Any, schema: str) -> None:
        """Check that `mutates_args` agrees with the schema."""
        marked = {
            a.name
            for a in self._operator.schema.arguments
            if a.alias_info is not None and a.alias_info.is_write
        }
        if marked != set(mutates_args):
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema="
                f"{schema}. The schema suggests that the op mutates {marked}which is different "
                "from what was provided to us in `mutates_args`. Please make these consistent."
            )

    def _register_autograd(self) -> RegisteredBackward:
        kernel = autograd_kernel(self._operator)
        where = self._operator.where
        self._operator.register(key_of("Autograd"), Kernel(kernel, where, with_keyset=True))
        if self._operator.schema.is_mutable:
            counting = Kernel(self._count_writes, where, with_keyset=True)
            self._operator.register(key_of("ADInplaceOrView"), counting)
        return kernel.formula  # type: ignore[attr-defined]

    def _count_writes(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        for tensor in written_arguments(self._operator, args, kwargs):
            count_told_write(tensor, self._qualname)
        return run(self._operator, keys.remove("ADInplaceOrView"), args, kwargs)

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """Register a kernel for these device types; None: for all."""
        names = [device_types] if device_types is None or isinstance(device_types, str) else (
            list(device_types)
        )  # fmt: skip

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                self._kernels[name] = function
                self._use(name)
            return function

        return register if fn is None else register(fn)

    def _use(self, device: str | None) -> None:
        """Register the kernel of a device type, which checks whether it is enabled."""
        names = {None: "CompositeExplicitAutograd", "cpu": "CPU", "sim": "Sim", "meta": "Meta"}
        if device not in names:
            return  # an unavailable device

        def kernel(*args: Any, **kwargs: Any) -> Any:
            chosen = device if device not in self._disabled else None
            function = self._kernels.get(chosen, self._init_fn)
            result = function(*args, **kwargs)
            self._check_aliases(function, args, kwargs, result)
            return result

        self._operator.register(key_of(names[device]), Kernel(kernel, self._operator.where))

    def _check_aliases(self, function: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self._operator.schema._is_view_op() or result is None:
            return
        given = [t.untyped_storage().data_ptr() for t in tensors_in((*args, *kwargs.values()))]
        for made in tensors_in((result,)):
            at = made.untyped_storage().data_ptr()
            if at and at in given:
                raise RuntimeError(
                    f"{self._name} (with implementation in {inspect.getmodule(function)}): The "
                    "output of this custom operator (1) must not also be an input to this custom "
                    "operator and (2) may not alias any inputs to this custom operator or other "
                    "returns. The most common way to trigger this error is if we have y = "
                    "custom_op(x) and y and x are the same Tensor. Please instead return a clone "
                    "of the offending output tensor(s) (e.g. return x.clone()) or refactor the "
                    "custom operator to not return y."
                )
            given.append(at)

    def register_fake(self, fn: Any = None, /) -> Any:
        """Register a function that computes shapes only."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._operator.use_fake(function)
            return function

        return register if fn is None else register(fn)

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Register a backward. `setup_context(ctx, inputs, output)` saves what it needs."""
        schema = self._operator.schema
        if schema.is_mutable or schema._is_view_op() or not schema.returns:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema "
                f"{schema}. Please create a functional operator and register an autograd formula "
                "for that."
            )
        self._formula.backward, self._formula.setup_context = backward, setup_context

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Enable or disable the kernel of a device type inside the block."""
        before = device_type in self._disabled
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            (self._disabled.add if before else self._disabled.discard)(device_type)
