"""`safetensors.torch`: state dicts in safetensors files, compatible with the original package."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from gradscope.runtime.core.tensors.making.factories import from_numpy
from gradscope.runtime.core.tensors.tensor.tensor import Tensor
from gradscope.runtime.standins.safetensors import numpy
from gradscope.runtime.standins.safetensors.format import NAMES, written
from gradscope.runtime.standins.safetensors.opened import safe_open

__all__ = ["load", "load_file", "load_model", "save", "save_file", "save_model"]

Metadata = Mapping[str, str] | None


def save(tensors: Mapping[str, Any], metadata: Metadata = None) -> bytes:
    """The file as bytes."""
    return b"".join(written(_arrays(tensors, metadata), metadata))


def save_file(tensors: Mapping[str, Any], filename: Any, metadata: Metadata = None) -> None:
    parts = written(_arrays(tensors, metadata), metadata)
    with Path(os.fspath(filename)).open("wb") as file:
        file.writelines(parts)


def load(data: bytes) -> dict[str, Any]:
    return {name: from_numpy(array) for name, array in numpy.load(data).items()}


def load_file(filename: Any, device: Any = "cpu", *, backend: str = "mmap") -> dict[str, Any]:
    with safe_open(filename, "pt", device) as file:
        return file.get_tensors()


def _arrays(tensors: Any, metadata: Metadata) -> dict[str, Any]:
    """The arrays to write, after checking them."""
    if not isinstance(tensors, dict):
        raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise TypeError(
                f"argument 'tensor_dict': '{type(name).__name__}' object is not an instance of "
                "'str'"
            )
        if not isinstance(tensor, Tensor):
            raise ValueError(
                f"Key `{name}` is invalid, expected torch.Tensor but received {type(tensor)}"
            )
    for value in (metadata or {}).values():
        if not isinstance(value, str):
            raise TypeError(
                f"argument 'metadata': '{type(value).__name__}' object is not an instance of 'str'"
            )
    shared = [group for group in _sharing(tensors) if len(group) > 1]
    if shared:
        raise RuntimeError(
            "\n            Some tensors share memory, this will lead to duplicate memory on disk "
            "and potential differences when loading them again: "
            f"[{', '.join('{' + ', '.join(map(repr, group)) + '}' for group in shared)}].\n"
            "            A potential way to correctly save your model is to use `save_model`."
        )
    return {name: _array(name, tensor) for name, tensor in tensors.items()}


def _array(name: str, tensor: Any) -> Any:
    if not tensor.is_contiguous():
        raise ValueError(
            f"You are trying to save a non contiguous tensor: `{name}` which is not allowed. It "
            "either means you are trying to save tensors which are reference of each other in "
            "which case it's recommended to save only the full tensors, and reslice at load time, "
            "or simply call `.contiguous()` on your tensor to pack it before saving."
        )
    array = tensor.detach().cpu()._array
    if array.dtype not in NAMES:
        raise KeyError(tensor.dtype)
    return array


def _sharing(tensors: Mapping[str, Any]) -> list[list[str]]:
    """The names of tensors in groups with overlapping memory."""
    found: list[tuple[int, list[str]]] = []  # end of a group's memory, and its names
    places = sorted(
        (tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size(), name)
        for name, tensor in tensors.items()
        if tensor.numel()
    )
    for start, end, name in places:
        if found and start < found[-1][0]:
            found[-1] = max(end, found[-1][0]), [*found[-1][1], name]
        else:
            found.append((end, [name]))
    return [sorted(names) for _, names in found]


# Models: shared tensors are written once ---------------------------------------------------------


def save_model(
    model: Any, filename: Any, metadata: Metadata = None, force_contiguous: bool = True
) -> None:
    """Save the state of a module. Shared tensors are saved once, with a note of other names."""
    state = model.state_dict()
    notes = dict(metadata or {})
    for kept, others in _doubled(state).items():
        for name in others:
            notes.setdefault(name, kept)
            del state[name]
    if force_contiguous:
        state = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(dict(state), filename, notes if notes or metadata is not None else None)


def load_model(
    model: Any, filename: Any, strict: bool = True, device: Any = "cpu", *, backend: str = "mmap"
) -> tuple[set[str], list[str]]:
    """Load what `save_model` wrote. Returns missing and unexpected names."""
    state = load_file(filename, device)
    doubled = _doubled(model.state_dict(), preferred=state)
    lacking, unexpected = model.load_state_dict(state, strict=False)
    missing = set(lacking)
    for name in (each for others in doubled.values() for each in others):
        if name in missing:
            missing.remove(name)
        else:
            unexpected.append(name)
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        for what, names in (("Missing", missing), ("Unexpected", unexpected)):
            if names:
                shown = ", ".join(f'"{name}"' for name in sorted(names))
                lines.append(f"    {what} key(s) in state_dict: {shown}")
        raise RuntimeError("\n".join(lines))
    return missing, unexpected


def _doubled(state: Mapping[str, Any], preferred: Iterable[str] = ()) -> dict[str, list[str]]:
    """For each saved name, the other names of the same memory."""
    wanted = set(preferred)
    found = {}
    for group in _sharing(state):
        if len(group) == 1:
            continue
        whole = [name for name in group if _is_whole(state[name])]
        if not whole:
            raise RuntimeError(
                "Error while trying to find names to remove to save state dict, but found no "
                f"suitable name to keep for saving amongst: {set(group)}. None is covering the "
                "entire storage."
            )
        kept = next((name for name in whole if name in wanted), whole[0])
        found[kept] = [name for name in group if name != kept]
    return found


def _is_whole(tensor: Any) -> bool:
    return bool(tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes())
