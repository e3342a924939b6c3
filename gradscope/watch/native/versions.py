"""What is known of each version of PyTorch that machine code runs in. A new version is added here.

# Note [Versions]
The offsets of fields are found at the start, by comparison with known objects (layout.py). This
table holds what is not found so. All of it is checked before it is used: the names of the engine's
functions, the owner and the edges of known nodes, and their metadata. A version without a row is
treated like the newest one, and each comparison has to give the same result three times. If
anything differs, the graph is traversed from Python and public hooks are used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import torch

from gradscope.watch.unseen import UnknownBuildError


class KnownVersion(NamedTuple):
    """One row."""

    shared: bool
    """Whether nodes are owned by `std::shared_ptr`; otherwise by `c10::intrusive_ptr`."""
    between: int
    """Number of the engine's functions between `make_anomaly_metadata`, which follows
    `execute_with_graph_task`, and `thread_on_exception`."""


VERSIONS = {
    "2.4": KnownVersion(shared=True, between=1),
    "2.5": KnownVersion(shared=True, between=1),
    "2.6": KnownVersion(shared=True, between=1),
    "2.7": KnownVersion(shared=True, between=1),
    "2.8": KnownVersion(shared=True, between=1),
    "2.9": KnownVersion(shared=True, between=1),
    "2.10": KnownVersion(shared=True, between=1),
    "2.11": KnownVersion(shared=True, between=1),
    "2.12": KnownVersion(shared=True, between=1),
    "2.13": KnownVersion(shared=False, between=1),
    "2.14": KnownVersion(shared=False, between=2),
    "2.15": KnownVersion(shared=False, between=2),
}

_NAME = ".".join(str(torch.__version__).split(".")[:2])
IS_KNOWN = _NAME in VERSIONS
VERSION = VERSIONS.get(_NAME, [*VERSIONS.values()][-1])

# What follows from the row, and from the C++ library that PyTorch was built for. Compiled code
# contains these constants.
SHARED = VERSION.shared
EDGE = 24 if SHARED else 16
"""Bytes of an edge: a node (and the address of its reference counts), and an index at the end."""

OWNER = 16 if SHARED else 0
"""Offset in a node of the address of its reference counts, after its own address; 0: none."""

COUNTED = 8
"""Offset of the number of owners in a `std::shared_ptr`'s reference counts, a half word."""

STRING = 32 if torch._C._GLIBCXX_USE_CXX11_ABI else 8
BEFORE = 0 if torch._C._GLIBCXX_USE_CXX11_ABI else 24
"""Bytes of a `std::string`, which begins with the address of its characters. Their number is stored
BEFORE them; 0: it follows the address."""

DICT = 8 + STRING + (16 if SHARED else 8)
"""Offset of the dict in the metadata of a node: after a text and the owner of another node."""

_OWNER_NAME = (
    "St10shared_ptrINS0_4NodeEE"
    if SHARED
    else "N3c1013intrusive_ptrINS0_4NodeENS1_6detail34intrusive_target_default_null_typeIS3_EEEE"
)
LIBRARIES = {
    "torch_python": {"to_python": f"_ZN5torch8autograd18functionToPyObjectERK{_OWNER_NAME}"},
    "torch_cpu": {"metadata_of": "_ZN5torch8autograd4Node8metadataEv"},
}
"""The functions that the traversal calls."""

TIMES = 3
Found = TypeVar("Found")


def certain(look: Callable[..., Found], *given: Any) -> Found:
    """What a comparison with known objects finds; in a version without a row, the same each time.

    Raises UnknownBuildError otherwise.
    """
    found = look(*given)
    if not IS_KNOWN and any(look(*given) != found for _ in range(TIMES - 1)):
        raise UnknownBuildError("a comparison gave different results")
    return found
