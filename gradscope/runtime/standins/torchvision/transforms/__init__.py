"""Transforms of images under torchvision's names, for tensors, arrays, and Pillow images."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.missing import no_module_attribute
from gradscope.runtime.standins.torchvision.transforms import functional as functional
from gradscope.runtime.standins.torchvision.transforms.functional import InterpolationMode
from gradscope.runtime.standins.torchvision.transforms.modules import (
    CenterCrop,
    Compose,
    ConvertImageDtype,
    Grayscale,
    Lambda,
    Normalize,
    Pad,
    PILToTensor,
    RandomApply,
    RandomCrop,
    RandomHorizontalFlip,
    RandomVerticalFlip,
    Resize,
    ToPILImage,
    ToTensor,
)

__all__ = [
    "CenterCrop",
    "Compose",
    "ConvertImageDtype",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomApply",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomVerticalFlip",
    "Resize",
    "ToPILImage",
    "ToTensor",
    "functional",
]


def __getattr__(name: str) -> Any:
    raise no_module_attribute("torchvision.transforms", name, __all__)
