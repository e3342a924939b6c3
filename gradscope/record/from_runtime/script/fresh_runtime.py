"""Resets all switches of the runtime, to run a program as in a new process."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any

from gradscope.runtime.core.devices import devices, streams
from gradscope.runtime.core.dtypes import dtypes
from gradscope.runtime.core.state import settings, warned
from gradscope.runtime.core.state.generator import DEFAULT_SEED
from gradscope.runtime.core.state.thread import ThreadState, local
from gradscope.runtime.core.tensors import printing
from gradscope.runtime.core.tensors.default_generator import default_generator

RUNTIME = "gradscope.runtime"
OWN = "gradscope.runtime."


@dataclass(frozen=True, slots=True)
class _Field:
    """A value that programs set, and its initial value."""

    owner: Any
    name: str
    first: Any


_FIELDS = [
    _Field(owner, name, getattr(owner, name))
    for owner, name in [
        (ThreadState, "anomaly_mode"),
        (ThreadState, "with_tangents"),
        (devices._Chosen, "default"),
        (printing._current, "options"),
        (streams.Settings, "ahead"),
        (streams.Settings, "devices"),
        (streams.Settings, "latency"),
        (warned.Always, "on"),
        *((settings._settings, name) for name in vars(settings._Settings()) if name != "threads"),
    ]
]

_LATE: dict[str, dict[str, Any]] = {
    "autograd.forward_ad": {"_current_level": -1},
    "core.autograd.forward.forward_grad": {"ForwardADLevel.open": None},
    "backends.cuda": {
        "matmul.allow_fp16_reduced_precision_reduction": True,
        "matmul.allow_tf32": False,
    },
    "backends.cudnn": dict.fromkeys(("allow_tf32", "benchmark", "deterministic", "enabled"), False),
    "backends.mha": {"_switch.enabled": True},
    "backends.opt_einsum": {"enabled": False, "strategy": None},
    "distributed.groups": {"_World.default": None},
    "distributed.start": {"_Made.number": 0},
    "distributions.distribution": {"Distribution._validate_args": __debug__},
    "hub": {"_Folder.chosen": None},
    "multiprocessing": {"_Strategy.name": "file_descriptor"},
    "nn.modules.module_parts.global_hooks": {"everywhere.backward_is_full": None},
    "nn.utils.parametrize": {"_Kept.depth": 0},
}
"""The same for modules that are not always imported, with the initial values."""

_CONTAINERS = {
    "core.devices.devices": ("device._defaults",),
    "core.errors.declare": ("TOLD",),
    "distributed.groups": ("made",),
    "nn.modules.module_parts.global_hooks": ("EVERYWHERE", "everywhere"),
    "optim.hooks": ("_before_every", "_after_every"),
    "serialization.safe_globals": ("_allowed",),
    "core.state.warned": ("_said",),
}
"""Containers that programs fill and that are empty at first, or objects that hold such containers.
"""

_REGISTRIES = {
    "distributions.constraint_registry": ("biject_to._registry", "transform_to._registry"),
    "distributions.kl": ("_KL_REGISTRY", "_KL_MEMOIZE"),
}
"""Registries of functions, which also contain those of the runtime."""

_ROOMS = {"amp.autocast_mode": "amp.kept", "library": "core.dispatch.operators.snapshot"}
"""Modules with more state: `kept()` returns it, and `put_back(None)` resets it."""


@contextmanager
def fresh_state() -> Iterator[None]:
    """Reset the state of the runtime inside this context, and restore it afterwards."""
    fields = [(field, getattr(field.owner, field.name)) for field in _fields()]
    threads = settings.chosen_threads()
    contents = [(each, each.copy()) for each in _containers()]
    registries = [(each, dict(each)) for each in _registries()]
    rooms = {room: room.kept() for room in _rooms()}
    default, generator, thread = (
        dtypes.get_default_dtype(),
        default_generator.get_state(),
        local.state,
    )
    for field, _ in fields:
        setattr(field.owner, field.name, field.first)
    for container, _ in contents:
        container.clear()
    _only_own(_registries())
    settings.put_num_threads(None)
    dtypes.set_default_dtype(dtypes.float32)
    default_generator.manual_seed(DEFAULT_SEED)
    local.state = ThreadState()
    for room in rooms:
        room.put_back(None)
    try:
        yield
    finally:
        local.state = thread
        for room in _rooms():
            room.put_back(rooms.get(room))
        _only_own(_registries())
        for registry, content in registries:
            registry.clear()
            registry.update(content)
        default_generator.set_state(generator)
        dtypes.set_default_dtype(default)
        settings.put_num_threads(threads)
        _put_back(fields, contents)


def _put_back(fields: list[tuple[_Field, Any]], contents: list[tuple[Any, Any]]) -> None:
    for field in _fields():  # including modules that were imported since
        setattr(field.owner, field.name, field.first)
    for container in _containers():
        container.clear()
    for field, value in fields:
        setattr(field.owner, field.name, value)
    for container, content in contents:
        (container.extend if isinstance(container, list) else container.update)(content)
    for state in list(ThreadState.all):
        state.anomaly, state.check_nan = ThreadState.anomaly_mode
        state.refresh()


def _fields() -> list[_Field]:
    late = []
    for name, values in _LATE.items():
        for module in _loaded([name]):
            for path, first in values.items():
                *owner, attribute = path.split(".")
                late.append(_Field(_reached(module, owner), attribute, first))
    return [*_FIELDS, *late]


def _containers() -> list[Any]:
    found = _all(_CONTAINERS)
    inner = [
        each
        for holder in found
        if not hasattr(holder, "clear")
        for each in vars(holder).values()
        if hasattr(each, "clear")
    ]
    return [each for each in found if hasattr(each, "clear")] + inner


def _registries() -> list[dict[Any, Any]]:
    return _all(_REGISTRIES)


def _only_own(registries: list[dict[Any, Any]]) -> None:
    """Remove entries that are not part of the runtime."""
    for registry in registries:
        for key, function in list(registry.items()):
            if not getattr(function, "__module__", "").startswith(OWN):
                del registry[key]


def _rooms() -> list[Any]:
    keepers = [keeper for name, keeper in _ROOMS.items() if _loaded([name])]
    return [import_module(f"{RUNTIME}.{keeper}") for keeper in keepers]


def _loaded(names: Iterable[str]) -> list[Any]:
    found = [sys.modules.get(f"{RUNTIME}.{name}") for name in names]
    return [module for module in found if module is not None]


def _all(paths: Mapping[str, tuple[str, ...]]) -> list[Any]:
    """The objects at these paths in imported modules."""
    return [
        _reached(module, path.split("."))
        for name, inside in paths.items()
        for module in _loaded([name])
        for path in inside
    ]


def _reached(owner: Any, names: Iterable[str]) -> Any:
    return reduce(getattr, names, owner)
