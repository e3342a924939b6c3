"""IDX files, the format of MNIST's images and labels, possibly compressed."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path
from typing import Any, Final

import numpy as np

from gradscope.runtime.core.tensors.making.factories import from_numpy

_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    0x08: np.dtype(np.uint8),
    0x09: np.dtype(np.int8),
    0x0B: np.dtype(">i2"),
    0x0C: np.dtype(">i4"),
    0x0D: np.dtype(">f4"),
    0x0E: np.dtype(">f8"),
}
"""The third byte of a file, and the dtype of its values, which are big-endian."""

GZIPPED: Final = b"\x1f\x8b"


def read_idx(path: Any) -> Any:
    """The tensor in a file, which may be compressed by gzip."""
    content = Path(os.fspath(path)).read_bytes()
    if content.startswith(GZIPPED):
        content = gzip.decompress(content)
    return from_numpy(_array(content, os.fspath(path)))


def _array(content: bytes, name: str) -> np.ndarray[Any, Any]:
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _DTYPES:
        raise ValueError(f"{name} is no IDX file: it begins with {content[:4]!r}")
    dtype, dims = _DTYPES[content[2]], content[3]
    start = 4 + 4 * dims
    shape = tuple(int.from_bytes(content[i : i + 4]) for i in range(4, start, 4))
    wanted = start + math.prod(shape) * dtype.itemsize
    if len(content) != wanted:
        raise ValueError(
            f"{name} is damaged: it has {len(content)} bytes, and an IDX file of "
            f"{' × '.join(map(str, shape))} numbers of {dtype.itemsize} bytes has {wanted}"
        )
    numbers = np.frombuffer(content, dtype, offset=start)
    return numbers.astype(dtype.newbyteorder("=")).reshape(shape)


FILES: Final = {
    True: ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    False: ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}
"""Names of MNIST's files, with or without `.gz`: images and labels."""


def read_mnist(folder: Any, *, train: bool = True) -> tuple[Any, Any]:
    """The images (N, 28, 28) as bytes, and their labels, from a folder with MNIST's files.

    Fashion-MNIST, KMNIST and others have files of the same names.
    """
    images, labels = (read_idx(_found(Path(os.fspath(folder)), name)) for name in FILES[train])
    return images, labels.long()


def _found(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz", folder / name.replace("-idx", ".idx")):
        if path.is_file():
            return path
    raise FileNotFoundError(
        f"there is neither {name} nor {name}.gz in {folder}, and nothing is downloaded here"
    )
