"""Models under torchvision's names: residual networks."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors.missing import no_module_attribute
from gradscope.runtime.standins.torchvision.models.builders import (
    ResNet18_Weights,
    ResNet34_Weights,
    ResNet50_Weights,
    ResNet101_Weights,
    ResNet152_Weights,
    resnet18,
    resnet34,
    resnet50,
    resnet101,
    resnet152,
    resnext50_32x4d,
    wide_resnet50_2,
)
from gradscope.runtime.standins.torchvision.models.resnet import ResNet

__all__ = [
    "ResNet",
    "ResNet18_Weights",
    "ResNet34_Weights",
    "ResNet50_Weights",
    "ResNet101_Weights",
    "ResNet152_Weights",
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnext50_32x4d",
    "wide_resnet50_2",
]


def __getattr__(name: str) -> Any:
    raise no_module_attribute("torchvision.models", name, __all__)
