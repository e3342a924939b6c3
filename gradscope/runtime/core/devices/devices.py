"""Devices of tensors: the CPU, or a simulated device `sim:N`.

A simulated device stores its arrays in the host's memory and computes with the host's kernels. Real
are its thread for nodes, its ready queue, and its stream of kernels with a latency (see
`gradscope.runtime.sim`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from gradscope.runtime.core.devices import streams
from gradscope.runtime.core.errors.arguments.raise_wrong_call import blame_the_call

HERE = ("cpu", "sim", "meta")
"""The device types of this runtime."""

ELSEWHERE = (
    "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla",
    "lazy", "vulkan", "mps", "hpu", "mtia", "privateuseone",
)  # fmt: skip
"""Further device types of PyTorch. They can be named, but no tensor can be there."""

KNOWN = ", ".join(("cpu", *ELSEWHERE[:-3], "meta", *ELSEWHERE[-3:]))
"""PyTorch's device types, in the order of its messages."""

NO_CUDA = "Torch not compiled with CUDA enabled"
NO_ACCELERATOR = "Cannot access accelerator device when none is available."


class device:  # noqa: N801  (PyTorch's name)
    """A device: a type, and an index if there are several."""

    __slots__ = ("index", "type")

    index: int | None
    type: str

    _defaults: ClassVar[list[device]] = []

    def __init__(self, type: Any = "cpu", index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        elif isinstance(type, int):
            raise RuntimeError(
                f"{NO_ACCELERATOR}\nA simulated device is asked for by name: 'sim:{type}'."
            )
        kind, _, number = str(type).partition(":")
        if kind not in HERE and kind not in ELSEWHERE:
            blame_the_call()
            raise RuntimeError(
                f"Expected one of {KNOWN} device type at start of device string: {kind}"
            )
        if number:
            if index is not None:
                raise RuntimeError(
                    "type (string) must not include an index because index was passed explicitly: "
                    f"{type}"
                )
            if not number.isdigit():
                raise RuntimeError(f"Invalid device string: '{type}'")
            index = int(number)
        self.type = kind
        self.index = index

    def __repr__(self) -> str:
        if self.index is None:
            return f"device(type='{self.type}')"
        return f"device(type='{self.type}', index={self.index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and self.type == other.type and self.index == other.index

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> Any:
        return device, (self.type,) if self.index is None else (self.type, self.index)

    def __enter__(self) -> device:
        """Make factories use this device inside the block."""
        device._defaults.append(check(self))
        return self

    def __exit__(self, *error: object) -> None:
        device._defaults.pop()


CPU = device("cpu")
META = device("meta")  # tensors without data: only shapes


class _Chosen:
    """The default device."""

    default = CPU


def get_default_device() -> device:
    """The device of factories without a `device` argument."""
    return device._defaults[-1] if device._defaults else _Chosen.default


def set_default_device(wanted: Any) -> None:
    _Chosen.default = CPU if wanted is None else check(wanted)


def check(wanted: Any) -> device:
    """The device of this name, in normal form: with an index if there are several."""
    if wanted is None:
        return get_default_device()
    if wanted is CPU:
        return CPU
    found = device(wanted)
    if found.type == "cpu":
        return CPU
    if found.type == "meta":
        return META
    if found.type != "sim":
        raise not_here(found)
    number = found.index or 0
    streams.of(number)  # raises if there is no such device
    return device("sim", number)


def not_here(wanted: device) -> Exception:
    """The error for a device that this machine does not have."""
    kind = wanted.type.upper()
    if kind in ("CUDA", "XPU", "HPU", "MTIA"):
        return AssertionError(f"Torch not compiled with {kind} enabled")
    return NotImplementedError(
        f"Could not run 'aten::empty.memory_format' with arguments from the '{kind}' backend.\n"
        "gradscope's runtime has the devices cpu, meta and sim:N."
    )


def stream_of(where: device) -> streams.Stream:
    return streams.NOWHERE if where.type == "meta" else streams.of(where.index or 0)
