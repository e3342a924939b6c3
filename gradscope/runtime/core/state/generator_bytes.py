"""The bytes of a generator's state, in PyTorch's layout, so that both libraries can read them."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from gradscope.runtime.core.kernels.support import Array

WORDS: Final = 624
_LAYOUT: Final = np.dtype(
    [
        ("seed", np.uint64),
        ("left", np.int32),  # words left until the next 624, plus one
        ("seeded", np.int32),
        ("next", np.uint64),
        ("key", np.uint64, WORDS),
        ("normal_x", np.float64),
        ("normal_y", np.float64),  # the second of a pair of normal numbers
        ("normal_rho", np.float64),
        ("normal_valid", np.int32),
        ("gap", np.int32),
        ("float_normal", np.float32),
        ("float_normal_valid", np.int32),
    ]
)
SIZE: Final = _LAYOUT.itemsize


class Snapshot(NamedTuple):
    """The full state of a generator."""

    seed: int
    key: Array
    position: int  # in the key; 624 if it is used up
    untouched: bool  # nothing was drawn since the seed was set
    second_normal: float | None


def pack(snapshot: Snapshot) -> Array:
    """Return the state as bytes."""
    record = np.zeros((), _LAYOUT)
    record["seed"] = snapshot.seed
    record["seeded"] = 1
    record["left"] = 1 if snapshot.untouched else WORDS + 1 - snapshot.position
    record["next"] = 0 if snapshot.untouched else snapshot.position
    record["key"] = snapshot.key
    if snapshot.second_normal is not None:
        record["normal_y"] = snapshot.second_normal
        record["normal_valid"] = 1
    return np.frombuffer(record.tobytes(), np.uint8).copy()


def unpack(state: Array) -> Snapshot:
    """Return the state in bytes written by `pack` or by PyTorch."""
    if state.dtype != np.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    if state.size != SIZE:
        raise RuntimeError(
            f"Expected a CPUGeneratorImplState of size {SIZE} "
            f"but found the input RNG state size to be {state.size}"
        )
    record = np.frombuffer(state.tobytes(), _LAYOUT)[0]
    left, position = int(record["left"]), int(record["next"])
    if not (record["seeded"] and 0 < left <= WORDS and position <= WORDS):
        raise RuntimeError("Invalid mt19937 state")
    return Snapshot(
        seed=int(record["seed"]),
        key=record["key"].astype(np.uint32),
        position=WORDS if left == 1 else position,
        untouched=left == 1 and position == 0,
        second_normal=float(record["normal_y"]) if record["normal_valid"] else None,
    )
