"""All paths of a parameter, for tied weights and shared modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from gradscope.trace.schema import NONE, Alias, Module, Tensor
from gradscope.trace.trace import Trace

SHOWN = 2


def other_paths(trace: Trace) -> Mapping[int, tuple[str, ...]]:
    """The other paths of parameters that have several."""
    return trace.once(_OtherPaths).of


class _OtherPaths:
    def __init__(self, trace: Trace) -> None:
        found: dict[int, dict[str, None]] = defaultdict(dict)
        modules, tensors = trace.table(Module), trace.table(Tensor)
        for alias in trace.rows(Alias):
            if alias.tensor != NONE:
                found[alias.tensor][alias.path] = None
            if alias.module == NONE or not modules.has(alias.module):
                continue
            path = modules.row(alias.module).path
            before = f"{path}." if path else ""
            for row in trace.rows(Module):
                if row.id != alias.module and not (before and row.path.startswith(before)):
                    continue
                for tensor in row.parameters:
                    name = tensors.row(tensor).name if tensors.has(tensor) else ""
                    if name.startswith(before) and name:
                        found[tensor][f"{alias.path}.{name.removeprefix(before)}"] = None
        self.of: Mapping[int, tuple[str, ...]] = {
            tensor: tuple(path for path in paths if path != tensors.row(tensor).name)
            for tensor, paths in found.items()
            if tensors.has(tensor)
        }


def also(trace: Trace, tensor: int) -> str:
    """As in " (also decoder.weight)"; "" for a parameter with one path."""
    others = other_paths(trace).get(tensor, ())
    if not others:
        return ""
    more = f" and {len(others) - SHOWN} more" if len(others) > SHOWN else ""
    return f" (also {', '.join(others[:SHOWN])}{more})"
