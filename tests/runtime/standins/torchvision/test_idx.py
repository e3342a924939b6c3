"""IDX files: what MNIST's images and labels are kept in."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest

from gradscope.runtime.standins.torchvision.datasets.idx import FILES, read_idx, read_mnist
from tests.runtime.both import raises


def idx(kind: int, shape: tuple[int, ...], numbers: bytes) -> bytes:
    return bytes([0, 0, kind, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + numbers


KINDS = {
    "torch.uint8": idx(0x08, (2, 2), bytes([1, 2, 3, 255])),
    "torch.int8": idx(0x09, (4,), struct.pack(">4b", 1, 2, 3, -1)),
    "torch.int16": idx(0x0B, (2, 2), struct.pack(">4h", 1, 2, 3, -300)),
    "torch.int32": idx(0x0C, (2, 1, 2), struct.pack(">4i", 1, 2, 3, -70_000)),
    "torch.float32": idx(0x0D, (2, 2), struct.pack(">4f", 1, 2, 3, 0.5)),
    "torch.float64": idx(0x0E, (2, 2), struct.pack(">4d", 1, 2, 3, 0.5)),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("packed", [False, True])
def test_numbers_of_each_kind_are_read(name: str, tmp_path: Path, *, packed: bool) -> None:
    path = tmp_path / "numbers"
    path.write_bytes(gzip.compress(KINDS[name]) if packed else KINDS[name])
    found = read_idx(path)

    assert str(found.dtype) == name
    assert found.flatten().tolist()[:3] == [1, 2, 3]
    assert list(found.shape) == list(struct.unpack_from(f">{KINDS[name][3]}I", KINDS[name], 4))
    found.add_(1)  # the memory is its own


@pytest.mark.parametrize("train", [False, True])
def test_mnist_is_read_from_its_folder(tmp_path: Path, *, train: bool) -> None:
    images, labels = FILES[train]
    (tmp_path / images).write_bytes(idx(0x08, (2, 28, 28), bytes(2 * 28 * 28)))
    (tmp_path / f"{labels}.gz").write_bytes(gzip.compress(idx(0x08, (2,), bytes([7, 2]))))
    pictures, numbers = read_mnist(tmp_path, train=train)

    assert (tuple(pictures.shape), str(pictures.dtype)) == ((2, 28, 28), "torch.uint8")
    assert (numbers.tolist(), str(numbers.dtype)) == ([7, 2], "torch.int64")


def test_what_is_not_there_or_damaged_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"PNG")
    assert "is no IDX file: it begins with b'PNG'" in raises(ValueError, lambda: read_idx(path))
    path.write_bytes(idx(0x08, (2, 3), b"12345"))
    assert "it has 17 bytes" in raises(ValueError, lambda: read_idx(path))
    assert "neither train-images-idx3-ubyte nor" in raises(
        FileNotFoundError, lambda: read_mnist(tmp_path)
    )
