"""Errors about tensors on several devices."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error("several-devices", "Move them to one device first: `y.to(x.device)`.")
def several_devices(first: Any, second: Any) -> Case:
    """The operands of a call are on different devices.

    Only Python numbers, and CPU tensors without dimensions, can be combined with any device.

    Example without PyTorch:
        x = torch.ones(3, device="sim:0")
        x + torch.ones(3)
    """
    return Case(
        RuntimeError,
        "Expected all tensors to be on the same device, but found at least two devices, "
        f"{first} and {second}!",
    )


@engine_error("numpy-on-device", "Use `x.cpu().numpy()`.")
def numpy_on_device(device: Any, tensor: Any) -> Case:
    """`numpy()` was called on a tensor on a device; a NumPy array is in the host's memory.

    Example without PyTorch:
        y = torch.ones(3, device="sim:0") * 2  # named below
        y.numpy()
    """
    return Case(
        TypeError,
        f"can't convert {device} device type tensor to numpy. Use Tensor.cpu() to "
        "copy the tensor to host memory first.",
        tensor=tensor,
    )
