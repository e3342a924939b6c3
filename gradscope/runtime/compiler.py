"""`torch.compiler`: steps are recorded and replayed; other functions stay unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.core.state import upward
from gradscope.runtime.core.state.array_calls import layout_only

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
    "set_stance",
    "substitute_in_graph",
]


def compile(model: Any = None, *, disable: bool = False, **_: Any) -> Any:
    """Return a step, or a model, that is replayed once it has been recorded.

    A model becomes a module that holds it as `_orig_mod`. The loop around it, its loss and its
    optimizer run uncaptured.
    """
    if model is None:
        return _compiled_unless(disable=disable)
    return model if disable else upward.replayed(model)


def _compiled_unless(*, disable: bool) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        return compile(function, disable=disable)

    return decorate


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return the function unchanged; without a function, a decorator that does so."""
    return _same if fn is None else fn


def _same(fn: Any) -> Any:
    return fn


allow_in_graph = assume_constant_result = substitute_in_graph = _same


@layout_only
def is_compiling() -> bool:
    return False


is_dynamo_compiling = is_exporting = is_compiling


def reset() -> None:
    """Do nothing: nothing was compiled."""


cudagraph_mark_step_begin = reset


def list_backends(exclude_tags: Any = ()) -> list[str]:
    return []


@contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[None]:
    """Accept the stance without effect."""
    yield


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.compiler", name, list(globals()))
