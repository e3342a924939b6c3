"""Copies of modules and their inputs, and what is the same about two of them."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from gradscope.record.notes.sites import is_installed

HOOKS = "_forward_hooks", "_forward_pre_hooks"
PLAIN = bool, int, float, str


def copied(given: Any, torch: Any) -> Any:
    """A copy of arguments: tensors are cloned, without their graph."""
    if isinstance(given, torch.Tensor):
        return given.detach().clone().requires_grad_(given.requires_grad)
    if type(given) in (list, tuple):
        return type(given)(copied(each, torch) for each in given)
    if type(given) is dict:
        return {name: copied(each, torch) for name, each in given.items()}
    return copy.deepcopy(given)


def copy_of(module: Any, torch: Any) -> Any:
    """A copy of a module that shares its parameters, without hooks of the program."""
    shared = list(module.parameters())
    for each in module.modules():
        held = vars(each)
        shared += [hook for name, hooks in held.items() if "hooks" in name for hook in _of(hooks)]
        shared += [value for value in held.values() if _is_shared(value, torch)]
    second = copy.deepcopy(module, {id(each): each for each in shared})
    for each in second.modules():
        for name in HOOKS:
            hooks = getattr(each, name)
            for number, hook in list(hooks.items()):
                if not _is_of_a_package(hook):
                    del hooks[number]
    return second


def _of(hooks: Any) -> list[Any]:
    return list(hooks.values()) if isinstance(hooks, dict) else []


def _is_shared(value: Any, torch: Any) -> bool:
    """Whether an attribute is not copied: results with a graph, and objects such as trainers."""
    if isinstance(value, torch.Tensor):
        return bool(value.requires_grad and not value.is_leaf)
    if isinstance(value, torch.nn.Module):
        return False
    file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
    return file is not None and is_installed(file) and type(value).__module__ != "collections"


def _is_of_a_package(hook: Any) -> bool:
    function = getattr(hook, "__func__", hook)
    code = getattr(function, "__code__", None) or getattr(type(hook).__call__, "__code__", None)
    return code is None or is_installed(code.co_filename)


def attributes(module: Any, torch: Any) -> dict[str, list[Any]]:
    """Buffers of a module and attributes that are plain, as they are now, by name."""
    found: dict[str, list[Any]] = {}
    for path, each in module.named_modules():
        before = f"{path}." if path else ""
        held = {**vars(each), **each._buffers}  # noqa: SLF001  as named_buffers of this module
        for name, value in held.items():
            if isinstance(value, torch.Tensor):
                found[f"{before}{name}"] = [value.detach().clone()]
            elif type(value) in PLAIN:
                found[f"{before}{name}"] = [value]
    return found


def tensors(result: Any, torch: Any) -> Iterator[Any]:
    """The tensors and numbers in what a module returned, without their graph."""
    if isinstance(result, torch.Tensor):
        yield result.detach()
    elif type(result) in PLAIN:
        yield result
    elif isinstance(result, Mapping):
        for each in result.values():
            yield from tensors(each, torch)
    elif isinstance(result, (list, tuple)):
        for each in result:
            yield from tensors(each, torch)
    elif is_dataclass(result):
        for field in fields(result):
            yield from tensors(getattr(result, field.name), torch)


def same(one: list[Any], other: list[Any], torch: Any) -> bool:
    """Whether two lists of tensors and numbers have the same values; NaN is equal to itself."""
    return len(one) == len(other) and all(
        _same(a, b, torch) for a, b in zip(one, other, strict=True)
    )


def _same(one: Any, other: Any, torch: Any) -> bool:
    if type(one) is not type(other) or not isinstance(one, torch.Tensor):
        return repr(one) == repr(other)
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.layout != torch.strided:
        one, other = one.to_dense(), other.to_dense()
    return bool(((one == other) | ((one != one) & (other != other))).all())  # noqa: PLR0124  NaN
