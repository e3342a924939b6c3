"""All registrations of users, restored after a script has run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gradscope.runtime.core.dispatch.modes.aten import aten
from gradscope.runtime.core.dispatch.operators import built_in as rows, custom_op
from gradscope.runtime.core.dispatch.operators.keys import ALIASES, ORDERED, DispatchKey
from gradscope.runtime.core.dispatch.operators.operator import Operator, fallbacks
from gradscope.runtime.core.dispatch.operators.overloads import offer, withdraw

DEFINED: dict[str, str] = {"aten": "built in"}
"""Namespaces with a library of kind DEF, and where it was created."""

LIBRARIES: dict[str, Any] = {}
"""Libraries used by `torch.library.define` and similar functions, by namespace."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A snapshot of registrations. Without arguments: the initial state."""

    operators: dict[str, Operator] = field(default_factory=dict)
    kernels: dict[Operator, tuple[dict[Any, Any], Any]] = field(default_factory=dict)
    rows: dict[Any, Operator] = field(default_factory=dict)
    fallbacks: dict[Any, Any] = field(default_factory=dict)
    definitions: dict[str, Any] = field(default_factory=dict)
    namespaces: dict[str, str] = field(default_factory=lambda: {"aten": "built in"})
    libraries: dict[str, Any] = field(default_factory=dict)
    order: list[str] = field(default_factory=lambda: list(ORDERED))
    keys: dict[str, DispatchKey] = field(default_factory=dict)  # besides the initial ones


def kept() -> Registered:
    """A snapshot of the present registrations."""
    every = [*Operator.known.values(), *rows._operators.values()]
    return Registered(
        dict(Operator.known),
        {each: (dict(each.kernels), each.fake) for each in every},
        dict(rows._operators),
        dict(fallbacks),
        dict(custom_op._definitions),
        dict(DEFINED),
        dict(LIBRARIES),
        [key.name for key in DispatchKey.order],
        dict(DispatchKey.named),
    )


def put_back(before: Registered | None) -> None:
    """Restore a snapshot; None: the initial state."""
    before = before or Registered()
    _operators_of_users(before)
    for row in rows._operators.keys() - before.rows.keys():
        rows._operators[row].overload.__dict__.pop("operator", None)
    for row, operator in before.rows.items():
        aten.overload_of(row).__dict__["operator"] = operator
    for operator, (kernels, fake) in before.kernels.items():
        operator.kernels, operator.fake = dict(kernels), fake
    for now, then in (
        (rows._operators, before.rows),
        (fallbacks, before.fallbacks),
        (custom_op._definitions, before.definitions),
        (DEFINED, before.namespaces),
        (LIBRARIES, before.libraries),
    ):
        now.clear()
        now.update(then)  # type: ignore[arg-type]  # each is what was taken from it
    _keys(before)
    Operator.changes += 1
    rows.refresh()


def _operators_of_users(before: Registered) -> None:
    """Remove operators defined since, and restore those removed since."""
    for name, operator in list(Operator.known.items()):
        if before.operators.get(name) is not operator:
            withdraw(operator)
            del Operator.known[name]
    for name, operator in before.operators.items():
        if name not in Operator.known:
            Operator.known[name] = operator
            offer(operator)


def _keys(before: Registered) -> None:
    for name in DispatchKey.named.keys() - {*ORDERED, *ALIASES, *before.keys}:
        del DispatchKey.named[name]
    DispatchKey.named.update(before.keys)  # one may have been removed since
    DispatchKey.order[:] = [DispatchKey.named[name] for name in before.order]
