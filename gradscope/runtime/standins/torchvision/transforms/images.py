"""Kinds of images: tensors (…, H, W), arrays (H, W) or (H, W, C), and Pillow images."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradscope.runtime.core.tensors.making.factories import from_numpy
from gradscope.runtime.core.tensors.tensor.tensor import Tensor

MODES = {"I": np.int32, "I;16": np.int16, "F": np.float32}
"""Pillow's modes whose values are not bytes."""


def is_pil(image: Any) -> bool:
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(image, module.Image)


def pil_image(array: Any) -> Any:
    """The Pillow image of an array; an error if Pillow is missing."""
    if find_spec("PIL") is None:
        raise RuntimeError("Pillow is not installed; an image is a tensor or an array here")
    flat = array.ndim == 3 and array.shape[2] == 1
    return import_module("PIL.Image").fromarray(array[:, :, 0] if flat else array)


def picture_of(array: Any) -> Any:
    """A dataset's image: a Pillow image if Pillow is installed, otherwise the array."""
    return array if find_spec("PIL") is None else pil_image(array)


def array_of(image: Any) -> Any:
    """A Pillow image as an array."""
    made = np.array(image, MODES.get(image.mode, np.uint8))
    return made * 255 if image.mode == "1" else made


def as_tensor(image: Any) -> tuple[Any, Callable[[Any], Any]]:
    """An image as a tensor (…, H, W), and a function that converts back."""
    if isinstance(image, Tensor):
        return image, lambda made: made
    if is_pil(image):
        made, back = as_tensor(array_of(image))
        return made, lambda tensor: pil_image(back(tensor))
    if not isinstance(image, np.ndarray) or image.ndim not in (2, 3):
        raise TypeError(
            "an image is a tensor, Pillow's, or an array of two or three dims, not "
            f"{type(image).__name__}"
        )
    array = image[:, :, None] if image.ndim == 2 else image
    planes = from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))

    def own_kind(made: Any) -> Any:
        """Restore two dims, if there were two and there is one channel."""
        flat = image.ndim == 2 and made.shape[0] == 1
        return made[0].numpy() if flat else np.ascontiguousarray(made.numpy().transpose(1, 2, 0))

    return planes, own_kind


def size_of(image: Any) -> tuple[int, int]:
    """Height and width."""
    if is_pil(image):
        return image.size[1], image.size[0]
    shape = tuple(image.shape)
    return shape[-2:] if isinstance(image, Tensor) else shape[:2]
