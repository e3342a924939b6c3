"""Safetensors files: what is written is read again, here and by the package itself."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradscope.runtime.standins.safetensors import SafetensorError, safe_open
from gradscope.runtime.standins.safetensors.torch import (
    load,
    load_file,
    load_model,
    save,
    save_file,
    save_model,
)
from tests.runtime.both import raises, runtime

torch = runtime()

DTYPES = "bool uint8 int8 int16 uint16 float16 bfloat16 int32 float32 complex64 float64 int64"


def shown(tensor: Any) -> Any:
    return str(tensor.dtype), tensor.tolist()


def everything() -> dict[str, Any]:
    """A tensor of each dtype, and one of each odd shape."""
    numbers = torch.arange(6.0).view(2, 3)
    kinds = {name: numbers.to(getattr(torch, name)) for name in DTYPES.split()}
    return {**kinds, "scalar": torch.tensor(3), "empty": torch.ones(0, 3), 'ü"\n': torch.ones(1)}


def test_each_dtype_and_shape_comes_back(tmp_path: Path) -> None:
    given = everything()
    save_file(given, tmp_path / "x.safetensors", {"format": "pt"})
    found = load_file(tmp_path / "x.safetensors")

    assert list(found) == sorted(given)
    assert {n: shown(t) for n, t in found.items()} == {n: shown(given[n]) for n in sorted(given)}
    assert {n: shown(t) for n, t in load(save(given)).items()} == {
        n: shown(given[n]) for n in sorted(given)
    }
    found["float32"].add_(1)  # the memory is its own
    assert shown(load_file(tmp_path / "x.safetensors")["float32"]) == shown(given["float32"])


def test_a_file_is_the_one_the_package_writes() -> None:
    """Dtypes from wide to narrow, then names; the header ends at a multiple of eight."""
    file = save(
        {"b": torch.ones(1), "a": torch.ones(1).long(), "c": torch.ones(1).bfloat16()}, {"k": "v"}
    )
    (length,) = struct.unpack("<Q", file[:8])
    header = (
        '{"__metadata__":{"k":"v"},'
        '"a":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},'
        '"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},'
        '"c":{"dtype":"BF16","shape":[1],"data_offsets":[12,14]}}'
    )

    assert length % 8 == 0
    assert file[8 : 8 + length].decode().rstrip(" ") == header
    assert file[8 + length :] == struct.pack("<qfH", 1, 1.0, 0x3F80)


def test_an_open_file_gives_one_tensor_or_a_part_of_it(tmp_path: Path) -> None:
    save_file({"w": torch.arange(6.0).view(2, 3), "b": torch.ones(2)}, tmp_path / "x", {"a": "1"})
    with safe_open(tmp_path / "x", framework="pt", device="cpu") as file:
        part = file.get_slice("w")

        assert (file.keys(), file.metadata()) == (["b", "w"], {"a": "1"})
        assert file.get_tensor("b").tolist() == [1.0, 1.0]
        assert (part.get_shape(), part.get_dtype()) == ([2, 3], "F32")
        assert part[:, 1:].tolist() == [[1.0, 2.0], [4.0, 5.0]]
        assert raises(SafetensorError, lambda: file.get_tensor("z")).endswith("tensor z")
    with safe_open(str(tmp_path / "x"), "np") as file:
        assert isinstance(file.get_tensor("w"), np.ndarray)


def test_a_module_whose_parameters_are_tied_is_written_once(tmp_path: Path) -> None:
    def tied() -> Any:
        model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        return model.append(model[0])

    model, other = tied(), tied()
    save_model(model, tmp_path / "m")
    with safe_open(tmp_path / "m", "pt") as file:
        assert file.keys() == ["0.bias", "0.weight"]
        assert file.metadata() == {"1.bias": "0.bias", "1.weight": "0.weight"}

    assert load_model(other, tmp_path / "m") == (set(), [])
    assert other[1].weight.tolist() == model[0].weight.tolist()
    assert raises(RuntimeError, lambda: load_model(torch.nn.ReLU(), tmp_path / "m")) == (
        "Error(s) in loading state_dict for ReLU:"
    )


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}}


DAMAGED = {
    "nothing": (b"", "header too small"),
    "endless": (struct.pack("<Q", 1 << 40), "header too large"),
    "cut": (struct.pack("<Q", 99) + b"{}", "invalid header length"),
    "no JSON": (file_of(b"xx"), "invalid JSON in header"),
    "deep": (file_of(b"[" * 100_000), "invalid JSON in header"),
    "a list": (file_of([]), "invalid JSON in header"),
    "metadata": (file_of({"__metadata__": {"a": 1}}), "invalid JSON in header"),
    "a number": (file_of({"a": 3}), "invalid JSON in header"),
    "a dtype": (file_of(entry("X"), b"0000"), "unknown variant `X`"),
    "true": (file_of(entry(shape=[True]), b"0000"), "invalid JSON in header"),
    "a size": (file_of(entry(shape=[2]), b"0000"), "invalid shape, data type, or offset"),
    "huge": (file_of(entry(shape=[1 << 40, 1 << 40]), b"0000"), "invalid shape, data type"),
    "negative": (file_of(entry(offsets=[-4, 0]), b"0000"), "invalid shape, data type"),
    "a hole": (file_of(entry(offsets=[4, 8]), bytes(8)), "invalid offset for tensor `a`"),
    "less": (file_of(entry(), b"00"), "not fully covered"),
    "more": (file_of(entry(), bytes(7)), "not fully covered"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    file, words = DAMAGED[name]
    (tmp_path / "x").write_bytes(file)

    assert words in raises(SafetensorError, lambda: load(file))
    assert words in raises(SafetensorError, lambda: load_file(tmp_path / "x"))


REFUSED = {
    "no dict": (lambda x: [x], ValueError, "Expected a dict of [str, torch.Tensor]"),
    "no tensor": (lambda x: {"a": [1]}, ValueError, "Key `a` is invalid"),
    "no name": (lambda x: {1: x}, TypeError, "argument 'tensor_dict': 'int' object is not"),
    "turned": (lambda x: {"a": x.t()}, ValueError, "You are trying to save a non contiguous"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_written_is_refused(name: str) -> None:
    made, kind, words = REFUSED[name]
    given = made(torch.ones(2, 3))  # type: ignore[no-untyped-call]

    assert raises(kind, lambda: save(given)).startswith(words)


def test_tensors_that_share_memory_are_refused() -> None:
    x = torch.ones(2, 3)
    with pytest.raises(RuntimeError, match="Some tensors share memory"):
        save({"a": x, "b": x[0]})
    assert list(load(save({"a": x[0], "b": x[1]}))) == ["a", "b"]
