"""`torch.ops.aten`: the operations under PyTorch's names, for dispatch modes.

It follows from the table of operations. Only names of overloads that differ are listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradscope.runtime.core.rows.operation import REGISTRY, Operation
from gradscope.runtime.core.rows.plan import Parameter
from gradscope.runtime.core.rows.traits import COMPARES

OVERLOADS = {
    "_drawn_exponential": "exponential_.default", "_drawn_normal": "normal_.default",
    "_drawn_uniform": "uniform_.default", "_filled.Scalar": "fill_.Scalar",
    "_filled_tensor.Tensor": "fill_.Tensor", "_selected_backward": "select_backward.default",
    "_squeezed": "squeeze_.default", "_squeezed_dim": "squeeze_.dim",
    "_squeezed_dims": "squeeze_.dims", "_t_self": "t_.default",
    "_transposed": "transpose_.default", "_unsqueezed": "unsqueeze_.default",
    "add.alpha": "add.Tensor", "add_.alpha": "add_.Tensor", "bernoulli_": "bernoulli_.float",
    "celu.from_result": "celu_.default", "elu.from_result": "elu_.default",
    "floor_divide.Tensor": "floor_divide.default", "index": "index.Tensor",
    "index_put_.fill": "index_put_.default", "leaky_relu.from_result": "leaky_relu_.default",
    "polygamma.n": "polygamma.default", "pow_.Tensor_Scalar": "pow_.Scalar",
    "pow_.Tensor_Tensor": "pow_.Tensor", "prod.dim": "prod.dim_int",
    "rsub.Scalar_alpha": "rsub.Scalar", "select": "select.int", "slice": "slice.Tensor",
    "split": "split.Tensor", "where": "where.self",
    "sub.alpha": "sub.Tensor", "sub_.alpha": "sub_.Tensor", "sum.dim": "sum.dim_IntList",
    "threshold.in_place": "threshold_.default", "_to_copy.whole": "_to_copy.default",
    "transpose": "transpose.int", "unbind": "unbind.int", "unsafe_split": "unsafe_split.Tensor",
}  # fmt: skip
"""Rows whose overload has another name in PyTorch."""

BY_NAME = frozenset({"alpha", "dtype", "generator", "memory_format"})
"""Parameters that PyTorch accepts by name only."""


def overload_name(op: Operation) -> str:
    """PyTorch's overload of an operation: `mul.Tensor`."""
    known = OVERLOADS.get(op.name)
    if known is not None:
        return known
    base, _, variant = op.name.partition(".")
    if not variant:
        binary = [p.name for p in op.plan.tensors] == ["self", "other"]
        variant = "Tensor" if binary and op.plan.numbers and op.plan.same_dtype else "default"
    return f"{base}.{variant}"


class Schema:
    """Arguments and results of an overload."""

    def __init__(self, op: Operation, name: str) -> None:
        base, _, overload = name.partition(".")
        self.name = f"aten::{base}"
        self.overload_name = "" if overload == "default" else overload
        self.arguments = list(op.plan.parameters)
        self.is_mutable = op.plan.kind == "inplace"
        full = f"{self.name}.{self.overload_name}" if self.overload_name else self.name
        self._text = f"{full}{op.schema[len(op.name) :]}"

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


class OpOverload:
    """One operation as modes receive it. Called inside a mode, it runs below that mode."""

    namespace = "aten"

    def __init__(self, packet: OpOverloadPacket, overload: str, op: Operation) -> None:
        self.overloadpacket = packet
        self._overloadname = overload
        self.rows = [op]
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__qualname__ = self.__name__
        self._schema = Schema(op, self.__name__)

    @property
    def is_view(self) -> bool:
        return self.rows[0].plan.kind == "view"

    def name(self) -> str:
        overload = self._schema.overload_name
        return f"{self._schema.name}.{overload}" if overload else self._schema.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gradscope.runtime.core.dispatch.modes.protocol import run

        return run(*self._bound(args, kwargs))

    def _bound(self, args: Any, kwargs: Any) -> tuple[Operation, list[Any]]:
        """The row that fits these arguments, and the arguments in its order."""
        for op in sorted(self.rows, key=lambda op: len(op.plan.parameters)):
            values = _values(op.plan.parameters, args, kwargs)
            if values is not None:
                return op, values
        raise RuntimeError(
            f"{self.name()}() got arguments that do not fit its schema.\nDeclaration: "
            f"{self._schema}"
        )

    def redispatch(self, keys: Any, *args: Any, **kwargs: Any) -> Any:
        """Continue with these keys."""
        from gradscope.runtime.core.dispatch.operators.built_in import operator_of
        from gradscope.runtime.core.dispatch.operators.key_dispatch import run as run_keys

        op, _ = self._bound(args, kwargs)
        return run_keys(operator_of(op), keys, args, kwargs)

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.overloadpacket}', overload='{self._overloadname}')>"


def _values(parameters: tuple[Parameter, ...], args: Any, kwargs: Any) -> list[Any] | None:
    """The value of each parameter; None if the arguments do not fit."""
    if len(args) > len(parameters):
        return None
    left = {key: value for key, value in kwargs.items() if value is not None}
    values = list(args)
    for p in parameters[len(args) :]:
        name = p.name if p.name in left else p.public
        if name not in left and not p.has_default:
            return None
        values.append(left.pop(name, p.default))
    return None if left else values


class OpOverloadPacket:
    """All overloads of one operation. Calling it calls the public function."""

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._overloads: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        return list(self._overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS, NN_FUNCTIONS

        for table in (FUNCTIONS, METHODS, NN_FUNCTIONS):
            if self.__name__ in table:
                return table[self.__name__](*args, **kwargs)
        return next(iter(self._overloads.values()))(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        known = self.__dict__.get("_overloads", {})
        if name in known:
            return known[name]
        raise AttributeError(f"The underlying op of '{self}' has no overload name '{name}'")

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"


class Namespace:
    """`torch.ops.aten`."""

    def __init__(self) -> None:
        self._packets: dict[str, OpOverloadPacket] = {}
        self._of: dict[Operation, OpOverload] = {}

    def _fill(self) -> None:
        for op in REGISTRY.values():
            base, _, overload = overload_name(op).partition(".")
            packet = self._packets.setdefault(base, OpOverloadPacket(base))
            known = packet._overloads.get(overload)
            if known is None:
                known = packet._overloads[overload] = OpOverload(packet, overload, op)
            else:
                known.rows.append(op)
            self._of[op] = known
            if (
                COMPARES in op.traits and overload == "Tensor"
            ):  # with a number it is another one in PyTorch
                packet._overloads.setdefault("Scalar", OpOverload(packet, "Scalar", op))

    def overload_of(self, op: Operation) -> OpOverload:
        """The overload that modes receive for a row."""
        if op not in self._of:
            self._fill()
        return self._of[op]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not self._packets:
            self._fill()
        if name not in self._packets:
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        return self._packets[name]

    def __iter__(self) -> Iterator[str]:
        if not self._packets:
            self._fill()
        return iter(self._packets)


aten = Namespace()
