"""Datasets under torchvision's names: MNIST and others with the same file format."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.missing import no_module_attribute
from gradscope.runtime.standins.torchvision.datasets.mnist import (
    KMNIST,
    MNIST,
    FashionMNIST,
    VisionDataset,
)

__all__ = ["KMNIST", "MNIST", "FashionMNIST", "VisionDataset"]


def __getattr__(name: str) -> Any:
    raise no_module_attribute("torchvision.datasets", name, __all__)
