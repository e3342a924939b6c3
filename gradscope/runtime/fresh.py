"""All switches of the runtime in one place: to run a program as in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from gradscope.runtime import devices, dtypes, printing, settings, streams, warned
from gradscope.runtime.generator import DEFAULT_SEED
from gradscope.runtime.random import default_generator
from gradscope.runtime.state import ThreadState, local


@dataclass(frozen=True, slots=True)
class _Field:
    """A value that programs set, and what it is at first."""

    owner: Any
    name: str
    first: Any


_FIELDS = [
    _Field(owner, name, getattr(owner, name))
    for owner, name in [
        (ThreadState, "anomaly_mode"),
        (devices._Chosen, "default"),
        (printing._current, "options"),
        (streams.Settings, "ahead"),
        (streams.Settings, "devices"),
        (streams.Settings, "latency"),
        (warned.Always, "on"),
        *((settings._settings, name) for name in vars(settings._Settings())),
    ]
]

_LATE = {
    "hub": ("_Folder.chosen",),
    "multiprocessing": ("_Strategy.name",),
    "nn.modules.global_hooks": ("everywhere.backward_is_full",),
}
"""The same in modules that programs may do without."""

_FIRST = {"_Folder.chosen": None, "_Strategy.name": "file_descriptor"}

_CONTAINERS = {
    "devices": ("device._defaults",),
    "nn.modules.global_hooks": ("EVERYWHERE", "everywhere"),
    "optim.hooks": ("_before_every", "_after_every"),
    "serialization.safe_globals": ("_allowed",),
    "warned": ("_said",),
}
"""What programs fill, and is empty at first; or what holds such containers."""


@contextmanager
def fresh_state() -> Iterator[None]:
    """Inside, all is as when the runtime has just been imported; afterwards, as it was."""
    fields = [(field, getattr(field.owner, field.name)) for field in _fields()]
    contents = [(each, each.copy()) for each in _containers()]
    default, generator, thread = (
        dtypes.get_default_dtype(),
        default_generator.get_state(),
        local.state,
    )
    for field, _ in fields:
        setattr(field.owner, field.name, field.first)
    for container, _ in contents:
        container.clear()
    dtypes.set_default_dtype(dtypes.float32)
    default_generator.manual_seed(DEFAULT_SEED)
    local.state = ThreadState()
    try:
        yield
    finally:
        local.state = thread
        default_generator.set_state(generator)
        dtypes.set_default_dtype(default)
        _put_back(fields, contents)


def _put_back(fields: list[tuple[_Field, Any]], contents: list[tuple[Any, Any]]) -> None:
    for field in _fields():  # those of modules that were loaded since, too
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
    late = [
        _Field(_reached(module, path.partition(".")[0]), path.partition(".")[2], _FIRST.get(path))
        for module, path in _loaded(_LATE)
    ]
    return [*_FIELDS, *late]


def _containers() -> list[Any]:
    found = [_reached(module, path) for module, path in _loaded(_CONTAINERS)]
    inner = [
        each
        for holder in found
        if not hasattr(holder, "clear")
        for each in vars(holder).values()
        if hasattr(each, "clear")
    ]
    return [each for each in found if hasattr(each, "clear")] + inner


def _loaded(paths: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[Any, str]]:
    for name, each in paths.items():
        module = sys.modules.get(f"gradscope.runtime.{name}")
        if module is not None:
            yield from ((module, path) for path in each)


def _reached(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name)
    return module
