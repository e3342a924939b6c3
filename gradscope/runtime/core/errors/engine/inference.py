"""Errors about tensors created in inference mode, which do not record what is done to them."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.declare import Case, engine_error


@engine_error("inference-saved", "Create it under `torch.no_grad()`, or use a clone() of it.")
def inference_saved(tensor: Any) -> Case:
    """A tensor that was created in inference mode would have to be saved for backward.

    Writes to it are not counted, so backward could not detect a changed value.

    Example:
        with torch.inference_mode():
            x = torch.ones(3) * 2  # named below
        torch.ones(3, requires_grad=True) * x
    """
    return Case(
        RuntimeError,
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in "
        "inference mode in computation tracked by autograd. To work around this, you can make "
        "a clone to get a normal tensor and use it in autograd, or use `torch.no_grad()` "
        "instead of `torch.inference_mode()`.",
        tensor=tensor,
    )


@engine_error(
    "inference-version",
    "Read `_version` of a clone(), or create the tensor under `torch.no_grad()`.",
)
def inference_version(tensor: Any) -> Case:
    """The version of a tensor that was created in inference mode was read; it has none.

    Example:
        with torch.inference_mode():
            x = torch.ones(3) * 2  # named below
        x._version
    """
    return Case(RuntimeError, "Inference tensors do not track version counter.", tensor=tensor)


@engine_error("inference-in-place", "Write to a clone() of it, or inside inference mode.")
def inference_in_place() -> Case:
    """A tensor that was created in inference mode would be written to outside of it.

    Example:
        with torch.inference_mode():
            x = torch.ones(3)
        x.add_(1)
    """
    return Case(
        RuntimeError,
        "Inplace update to inference tensor outside InferenceMode is not allowed."
        "You can make a clone to get a normal tensor before doing inplace update."
        "See https://github.com/pytorch/rfcs/pull/17 for more details.",
    )


@engine_error("inference-requires-grad", "Set `requires_grad` on a clone() of it.")
def inference_requires_grad(tensor: Any) -> Case:
    """`requires_grad` was set outside inference mode for a tensor created in it.

    Example:
        with torch.inference_mode():
            x = torch.ones(3) * 2  # named below
        x.requires_grad_()
    """
    return Case(
        RuntimeError,
        "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.",
        tensor=tensor,
    )
