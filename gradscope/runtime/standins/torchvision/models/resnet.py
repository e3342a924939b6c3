"""Residual networks: He et al., Deep Residual Learning for Image Recognition, 2015.

Parts have torchvision's names and order, so that state dicts fit and the same seed gives the same
initial weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradscope.runtime import nn
from gradscope.runtime.nn.modules.module import Module

Norm = Callable[[int], Any]


def _conv3x3(channels: int, out: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> Any:
    return nn.Conv2d(channels, out, 3, stride, dilation, dilation, groups, bias=False)


def _conv1x1(channels: int, out: int, stride: int = 1) -> Any:
    return nn.Conv2d(channels, out, 1, stride, bias=False)


class BasicBlock(Module):
    """Two convolutions with a shortcut."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        self.conv1 = _conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(Module):
    """Three convolutions, the middle one with fewer channels, with a shortcut."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = _conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = _conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = _conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(Module):
    """A convolution, four stages of blocks, and a linear layer."""

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Sequence[bool] | None = None,
        norm_layer: Norm | None = None,
    ) -> None:
        super().__init__()
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation = 64, 1
        dilated = replace_stride_with_dilation or (False, False, False)
        if len(dilated) != 3:
            raise ValueError(
                "replace_stride_with_dilation should be None or a 3-element tuple, got "
                f"{replace_stride_with_dilation}"
            )
        self.groups, self.base_width = groups, width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, 2, 3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate=dilated[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate=dilated[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate=dilated[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._first_weights(zero_init_residual)

    def _first_weights(self, zero_init_residual: bool) -> None:
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(part, nn.BatchNorm2d | nn.GroupNorm):
                nn.init.constant_(part.weight, 1)
                nn.init.constant_(part.bias, 0)
        if not zero_init_residual:
            return
        for part in self.modules():
            last = {Bottleneck: "bn3", BasicBlock: "bn2"}.get(type(part))
            if last is not None and getattr(part, last).weight is not None:
                nn.init.constant_(getattr(part, last).weight, 0)

    def _make_layer(
        self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False
    ) -> Any:
        before, out = self.dilation, planes * block.expansion
        if dilate:
            self.dilation, stride = self.dilation * stride, 1
        around = None
        if stride != 1 or self.inplanes != out:
            around = nn.Sequential(_conv1x1(self.inplanes, out, stride), self._norm_layer(out))
        shared = (self.groups, self.base_width)
        norm = self._norm_layer
        made = [block(self.inplanes, planes, stride, around, *shared, before, norm)]
        self.inplanes = out
        made += [
            block(out, planes, 1, None, *shared, self.dilation, norm) for _ in range(1, blocks)
        ]
        return nn.Sequential(*made)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(self.avgpool(x).flatten(1))
