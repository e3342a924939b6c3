"""Detection head with a focal loss; the exponent is below one in this ablation."""

from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    gamma: float = 0.5
    alpha: float = 0.25
    lr: float = 0.02
    steps: int = 3


def focal_loss(logits, targets, gamma, alpha):
    p = torch.sigmoid(logits)
    ce = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    modulating = (1 - p_t) ** gamma  # BUG non-finite
    # FIX modulating = (1 - p_t).clamp_min(1e-6) ** gamma
    weight = alpha * targets + (1 - alpha) * (1 - targets)
    return (weight * modulating * ce).mean()


class Head(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, 8, 3, padding=1)
        self.cls = nn.Conv2d(8, 1, 1)
        nn.init.constant_(self.cls.bias, -4.6)

    def forward(self, x):
        return self.cls(F.relu(self.conv(x)))


def main(config):
    torch.manual_seed(0)
    head = Head(3)
    optimizer = torch.optim.SGD(head.parameters(), lr=config.lr, momentum=0.9)
    images = torch.randn(4, 3, 8, 8)
    images[0] *= 400.0
    targets = (torch.rand(4, 1, 8, 8) > 0.9).float()
    for step in range(config.steps):
        loss = focal_loss(head(images), targets, config.gamma, config.alpha)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))


main(Config())
