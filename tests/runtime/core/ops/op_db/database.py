"""PyTorch's own database of operators, so that both engines can be given its samples.

An entry's function is found under its name on either engine. Where the database wraps it in a
function of its own (a seed before it, a method behind it), that function is given the other
module as its `torch`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

import ml_dtypes
import numpy as np

from gradscope import runtime

DESIGN = Path(__file__).with_name("tiers.txt")


@cache
def tiers() -> dict[str, int]:
    """Which tier each listed operation is in."""
    found: dict[str, int] = {}
    tier = 0
    for line in DESIGN.read_text().splitlines():
        if line.startswith("tier "):
            tier = int(line.removeprefix("tier "))
        elif line.strip() and not line.startswith("#"):
            found.update(dict.fromkeys(line.split(), tier))
    return found


HELD = Path(__file__).with_name("held.txt")


def held_names() -> list[list[str]]:
    """Operations whose only samples are the database's: each with all names it is offered by."""
    lines = HELD.read_text(encoding="utf-8").splitlines()
    return [line.split() for line in lines if line[:1] not in ("", "#")]


def held() -> list[str]:
    """What the database calls them."""
    return [names[0] for names in held_names()]


@cache
def entries() -> dict[str, list[Any]]:
    """The entries of the database by name; a name has one for each of its variants."""
    from torch.testing._internal import common_utils
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo import core

    # For each sample it searches all frames below for a unittest, whose files it reads: 20 ms.
    common_utils.extract_test_fn = core.extract_test_fn = lambda: None

    found: dict[str, list[Any]] = {}
    for info in op_db:
        found.setdefault(info.name, []).append(info)
    return found


# -- finding functions -------------------------------------------------------------------------


class Absent(Exception):
    """The runtime has no such operation."""


def our_function(info: Any) -> Callable[..., Any]:
    """What an entry calls, on gradscope's runtime."""
    made = info.op
    if isinstance(made, FunctionType) and made.__module__.startswith("torch.testing."):
        resolved(info.name)  # a name that is not there is not hidden behind a wrapper
        return rebound(made)
    return resolved(info.name)


def resolved(name: str) -> Any:
    """A function of the runtime's by name, or a method."""
    found: Any = runtime
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except (AttributeError, ImportError):
        found = getattr(runtime.Tensor, name, None)
        if found is None and name in METHODS_ONLY:
            return None
        if found is None:
            found = getattr(runtime.ops.aten, name, None)
        if found is None:
            raise Absent(name) from None
    return found


METHODS_ONLY = frozenset({"uniform", "cauchy", "exponential", "geometric", "log_normal"})
"""Entries called without the underscore that their methods end in."""


def rebound(made: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the database's that means our module where it says `torch`."""
    if not isinstance(made, FunctionType) or not made.__module__.startswith("torch.testing."):
        return made
    scope = dict(made.__globals__)
    scope["torch"] = runtime
    scope["wrapper_set_seed"] = _with_seed
    for name in made.__code__.co_names:
        helper = scope.get(name)
        if isinstance(helper, FunctionType) and name != "wrapper_set_seed":
            scope[name] = rebound(helper)
    twin = FunctionType(
        made.__code__, scope, made.__name__, made.__defaults__, _closure(made.__closure__)
    )
    twin.__kwdefaults__ = made.__kwdefaults__
    return twin


def _closure(cells: Any) -> Any:
    if not cells:
        return cells
    from types import CellType

    return tuple(
        CellType(rebound(c.cell_contents)) if isinstance(c.cell_contents, FunctionType) else c
        for c in cells
    )


def _with_seed(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    runtime.manual_seed(42)
    return op(*args, **kwargs)


def our_inplace(info: Any) -> Callable[..., Any] | None:
    """The in-place twin that an entry names, on our runtime."""
    return _twin(info.inplace_variant)


def _twin(made: Any) -> Callable[..., Any] | None:
    if made is None:
        return None
    if isinstance(made, FunctionType) and made.__module__.startswith("torch.testing."):
        return rebound(made)
    if isinstance(made, partial):  # a function of nn.functional with inplace=True
        return partial(resolved(f"nn.functional.{made.func.__name__}"), **made.keywords)
    name = made.__name__
    found = getattr(runtime.Tensor, name, None)
    if found is None:
        raise Absent(name)
    return found  # type: ignore[no-any-return]


# -- carrying values over ----------------------------------------------------------------------


def ours(value: Any) -> Any:
    """The same value on our runtime: tensors with the same memory layout, dtypes by name."""
    return _carried(value, _our_tensor, runtime)


def theirs(value: Any) -> Any:
    """A fresh copy for PyTorch: leaves, so that gradients can be asked for."""
    import torch

    return _carried(value, _their_tensor, torch)


def _carried(value: Any, tensor: Callable[[Any], Any], module: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return getattr(module, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return module.device(str(value))
    if isinstance(value, torch.Size):
        return module.Size(value)
    if isinstance(value, torch.Generator):
        made = module.Generator()
        made.manual_seed(value.initial_seed())
        return made
    if type(value) in (list, tuple):
        return type(value)(_carried(item, tensor, module) for item in value)
    if isinstance(value, dict):
        return {key: _carried(item, tensor, module) for key, item in value.items()}
    if isinstance(value, FunctionType) and module is runtime:
        return rebound(value)
    if type(value).__name__ == "LinearCrossEntropyOptions":
        options = _carried(dataclasses.asdict(value), tensor, module)
        return module.nn.LinearCrossEntropyOptions(**options)
    if isinstance(value, torch.nn.Module):  # a distance, made without options
        return getattr(module.nn, type(value).__name__)()
    return value


def _array_of(tensor: Any) -> np.ndarray[Any, Any]:
    """A copy of a tensor's memory, seen through its strides."""
    import torch

    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.dtype is torch.bfloat16:
        bits = _array_of(plain.view(torch.int16))
        return bits.view(ml_dtypes.bfloat16)
    if not plain.numel():
        return np.zeros(tuple(plain.shape), plain.numpy().dtype)
    reach = 1 + sum((n - 1) * s for n, s in zip(plain.shape, plain.stride(), strict=True))
    memory = torch.as_strided(plain, (reach,), (1,)).numpy().copy()
    steps = [s * memory.itemsize for s in plain.stride()]
    return np.lib.stride_tricks.as_strided(memory, tuple(plain.shape), steps)


def _our_tensor(tensor: Any) -> Any:
    made = runtime.Tensor.from_array(_array_of(tensor))
    return made.requires_grad_(True) if tensor.requires_grad else made


def _their_tensor(tensor: Any) -> Any:
    import torch

    array = _array_of(tensor)
    if tensor.dtype is torch.bfloat16:
        made = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        made = torch.from_numpy(array)
    return made.requires_grad_(True) if tensor.requires_grad else made


def tensors(value: Any) -> Iterator[Any]:
    """All tensors in a nest of lists, in order."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors(item)
    elif hasattr(value, "requires_grad") and hasattr(value, "grad_fn"):
        yield value


def written_tiers(design: str) -> str:
    """The file of tiers, from the text of the design."""
    lines = ["# Which operations are in which tier; from the design's ops.md."]
    parts = re.split(r"\n## Tier (\d)[^\n]*\n", design)
    for tier, body in zip(parts[1::2], parts[2::2], strict=True):
        body = body.split("\n## nn modules")[0]
        names = re.findall(r"^\| `([^`]+)`", body, re.MULTILINE)
        for line in body.splitlines():
            if not line.startswith("|"):
                names += re.findall(r"`([\w.]+)`", line)
        lines += [f"tier {tier}", *dict.fromkeys(names)]
    return "\n".join(lines) + "\n"
