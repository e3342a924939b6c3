"""Operators as users call them: `torch.ops.mine.foo`, `torch.ops.mine.foo.default`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradscope.runtime.core.dispatch.modes.aten import OpOverload, OpOverloadPacket, aten
from gradscope.runtime.core.dispatch.operators.key_dispatch import call, run
from gradscope.runtime.core.dispatch.operators.keys import DispatchKeySet, key_of
from gradscope.runtime.core.dispatch.operators.operator import Operator
from gradscope.runtime.core.dispatch.operators.schema import bind


class RegisteredOverload(OpOverload):
    """One overload of an operator that a user has registered."""

    def __init__(self, packet: OpOverloadPacket, operator: Operator) -> None:
        schema = operator.schema
        self.overloadpacket = packet
        self.operator = operator
        self.namespace, _, self._opname = schema.name.partition("::")
        self._namespace = self.namespace
        self._overloadname = schema.overload_name or "default"
        self.rows = []
        self.__name__ = f"{self._opname}.{self._overloadname}"
        self.__qualname__ = self.__name__
        self._schema: Any = schema
        self.tags = list(operator.tags)
        operator.overload = self

    @property
    def is_view(self) -> bool:
        return bool(self._schema._is_view_op())

    def name(self) -> str:
        return self.operator.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return call(self.operator, args, kwargs)

    def redispatch(self, keys: DispatchKeySet, *args: Any, **kwargs: Any) -> Any:
        """Continue with these keys."""
        return run(self.operator, keys, args, kwargs)

    def has_kernel_for_dispatch_key(self, key: Any) -> bool:
        return key_of(key) in self.operator.kernels


class RegisteredPacket(OpOverloadPacket):
    """All overloads of an operator. Calling it runs the first one that fits the arguments."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(name)
        self.namespace = namespace
        self._qualified_op_name = f"{namespace}::{name}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        overloads = list(self._overloads.values())
        if len(overloads) == 1:
            return overloads[0](*args, **kwargs)
        refused: RuntimeError | None = None
        for overload in overloads:
            try:
                bind(overload._schema, args, kwargs)  # type: ignore[arg-type]  # a full schema
            except RuntimeError as error:
                refused = refused or error
                continue
            return overload(*args, **kwargs)
        if refused is not None:
            raise refused
        raise RuntimeError(f"{self._qualified_op_name} has no overload any more")

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"


class OpNamespace:
    """A namespace of operators: `torch.ops.mine`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._packets: dict[str, OpOverloadPacket] = {}

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__.get("_packets", {}).get(name)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{name}'")
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._packets)

    def __dir__(self) -> list[str]:
        return sorted(self._packets)

    def __repr__(self) -> str:
        return f"<module 'torch.ops.{self._name}' from 'torch.ops'>"


_namespaces: dict[str, Any] = {"aten": aten}


def namespace(name: str) -> Any:
    """`torch.ops.<name>`; empty if nothing is defined in the namespace."""
    found = _namespaces.get(name)
    if found is None:
        found = _namespaces[name] = OpNamespace(name)
    return found


def offer(operator: Operator) -> RegisteredOverload:
    """Make an operator available under `torch.ops`."""
    name, _, base = operator.schema.name.partition("::")
    packets = namespace(name)._packets
    packet = packets.setdefault(base, RegisteredPacket(name, base))
    made = RegisteredOverload(packet, operator)
    packet._overloads[made._overloadname] = made
    return made


def withdraw(operator: Operator) -> None:
    """Remove an operator from `torch.ops`."""
    name, _, base = operator.schema.name.partition("::")
    packets = namespace(name)._packets
    packet = packets.get(base)
    if packet is not None:
        packet._overloads.pop(operator.schema.overload_name or "default", None)
        if not packet._overloads:
            del packets[base]
