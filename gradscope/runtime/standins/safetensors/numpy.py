"""`safetensors.numpy`: NumPy arrays in safetensors files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradscope.runtime.standins.safetensors.format import header_length, read_header, written
from gradscope.runtime.standins.safetensors.opened import safe_open

__all__ = ["load", "load_file", "save", "save_file"]


def save(tensor_dict: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    return b"".join(written(tensor_dict, metadata))


def save_file(
    tensor_dict: Mapping[str, Any], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    with Path(os.fspath(filename)).open("wb") as file:
        file.writelines(written(tensor_dict, metadata))


def load(data: bytes) -> dict[str, Any]:
    length = header_length(data[:8], len(data))
    body = memoryview(data)[8 + length :]
    entries, _ = read_header(data[8 : 8 + length], len(body))
    return {name: entries[name].of(body).copy() for name in sorted(entries)}


def load_file(filename: Any) -> dict[str, Any]:
    with safe_open(filename, "np") as file:
        return file.get_tensors()
