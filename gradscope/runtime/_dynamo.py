"""`torch._dynamo`: switches of PyTorch's compiler, without effect here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gradscope.runtime.compiler import (
    allow_in_graph,
    disable,
    is_compiling,
    list_backends,
    reset,
)
from gradscope.runtime.core.errors import missing

__all__ = [
    "allow_in_graph",
    "config",
    "disable",
    "graph_break",
    "is_compiling",
    "list_backends",
    "reset",
]

config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, verbose=False)


def graph_break(msg: str = "") -> None:
    """Do nothing: there is no graph to break."""


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch._dynamo", name, __all__)
