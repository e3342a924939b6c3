"""The two engines side by side, and questions written as text that both are asked.

Files that compare with PyTorch take `torch` from here. Where it is not installed that is None:
they can be read everywhere, and the mark `torch` skips what needs it.
"""

from __future__ import annotations

import importlib
import math
from importlib.util import find_spec
from typing import Any

import gradscope.runtime as ours

torch: Any = importlib.import_module("torch") if find_spec("torch") else None
ENGINES = (ours, torch)

REFUSALS = (
    RuntimeError,
    TypeError,
    ValueError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
    NotImplementedError,
)


def both(code: str, **names: Any) -> list[Any]:
    """What an expression gives on both engines, or how they refuse it."""
    return [answer(engine, code, **names) for engine in ENGINES]


def answer(engine: Any, code: str, **names: Any) -> Any:
    """What an expression gives on an engine, or how it refuses it."""
    engine.manual_seed(0)
    scope = {"torch": engine, "nn": engine.nn, "F": engine.nn.functional, **names}
    try:
        return plain(eval(code, scope))
    except REFUSALS as error:
        return (type(error).__name__, str(error).split("\n")[0])


def plain(value: Any) -> Any:
    """The numbers of a tensor, of each in a sequence; the text of anything else."""
    if hasattr(value, "detach"):
        return value.detach().tolist()
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return str(value)


def rounded(value: Any) -> Any:
    """The same with six digits behind the point."""
    if isinstance(value, tuple | list):
        return [rounded(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


def graph(starts: list[Any]) -> list[str]:
    """Every node reached, with its edges, in one order; a node met again by its number."""
    lines: list[str] = []
    numbers: dict[Any, int] = {}
    waiting = [t.grad_fn for t in reversed(starts)]
    while waiting:
        node = waiting.pop()
        if node is None or node in numbers:
            lines.append("nothing" if node is None else f"again {numbers[node]}")
            continue
        numbers[node] = len(numbers)
        lines.append(f"{type(node).__name__} {[nr for _, nr in node.next_functions]}")
        waiting += [following for following, _ in reversed(node.next_functions)]
    return lines


def same(found: Any, wanted: Any) -> bool:
    """Equal, where numbers may differ in their last digits."""
    if isinstance(wanted, float):
        return isinstance(found, float) and (
            found == wanted
            or (math.isnan(found) and math.isnan(wanted))
            or math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-12)
        )
    if isinstance(wanted, list | tuple):
        return (
            type(found) is type(wanted)
            and len(found) == len(wanted)
            and all(same(a, b) for a, b in zip(found, wanted, strict=True))
        )
    if isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(same(found[k], wanted[k]) for k in wanted)
    return bool(found == wanted)
