"""`resnet18()` and others: networks with random weights, since nothing is downloaded."""

from __future__ import annotations

from enum import Enum
from typing import Any

from gradscope.runtime.standins.torchvision.models.resnet import BasicBlock, Bottleneck, ResNet


class _Weights(Enum):
    """Names of weights that torchvision would download."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__


class ResNet18_Weights(_Weights):  # noqa: N801 -- torchvision's name
    IMAGENET1K_V1 = "resnet18-f37072fd.pth"
    DEFAULT = IMAGENET1K_V1


class ResNet34_Weights(_Weights):  # noqa: N801 -- likewise
    IMAGENET1K_V1 = "resnet34-b627a593.pth"
    DEFAULT = IMAGENET1K_V1


class ResNet50_Weights(_Weights):  # noqa: N801 -- likewise
    IMAGENET1K_V1 = "resnet50-0676ba61.pth"
    IMAGENET1K_V2 = "resnet50-11ad3fa6.pth"
    DEFAULT = IMAGENET1K_V2


class ResNet101_Weights(_Weights):  # noqa: N801 -- likewise
    IMAGENET1K_V1 = "resnet101-63fe2227.pth"
    IMAGENET1K_V2 = "resnet101-cd907fc2.pth"
    DEFAULT = IMAGENET1K_V2


class ResNet152_Weights(_Weights):  # noqa: N801 -- likewise
    IMAGENET1K_V1 = "resnet152-394f9c45.pth"
    IMAGENET1K_V2 = "resnet152-f82ba261.pth"
    DEFAULT = IMAGENET1K_V2


def _built(name: str, block: Any, layers: list[int], given: dict[str, Any], **fixed: Any) -> ResNet:
    """The network, if no weights are requested; `pretrained` is the old option for weights."""
    weights = given.pop("weights", None)
    pretrained = given.pop("pretrained", False)
    given.pop("progress", None)
    if weights is not None or pretrained:
        asked = f"weights={weights}" if weights is not None else f"pretrained={pretrained}"
        raise RuntimeError(
            f"{name}({asked}): gradscope's stand-in for torchvision downloads nothing; build the "
            "network with weights=None, and load the weights from a local file: "
            "model.load_state_dict(torch.load('resnet….pth'))"
        )
    return ResNet(block, layers, **{**fixed, **given})


def resnet18(**kwargs: Any) -> ResNet:
    return _built("resnet18", BasicBlock, [2, 2, 2, 2], kwargs)


def resnet34(**kwargs: Any) -> ResNet:
    return _built("resnet34", BasicBlock, [3, 4, 6, 3], kwargs)


def resnet50(**kwargs: Any) -> ResNet:
    return _built("resnet50", Bottleneck, [3, 4, 6, 3], kwargs)


def resnet101(**kwargs: Any) -> ResNet:
    return _built("resnet101", Bottleneck, [3, 4, 23, 3], kwargs)


def resnet152(**kwargs: Any) -> ResNet:
    return _built("resnet152", Bottleneck, [3, 8, 36, 3], kwargs)


def resnext50_32x4d(**kwargs: Any) -> ResNet:
    fixed = {"groups": 32, "width_per_group": 4}
    return _built("resnext50_32x4d", Bottleneck, [3, 4, 6, 3], kwargs, **fixed)


def wide_resnet50_2(**kwargs: Any) -> ResNet:
    return _built("wide_resnet50_2", Bottleneck, [3, 4, 6, 3], kwargs, width_per_group=128)
