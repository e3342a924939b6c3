"""A residual network, with squeezing and an optional checkpoint for each block."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Swish(torch.autograd.Function):
    """x · sigmoid(x), which keeps only x."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad * (s + x * s * (1 - s))


class Squeeze(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down = nn.Linear(width, max(width // 2, 1))
        self.up = nn.Linear(max(width // 2, 1), width)

    def forward(self, x):
        weight = self.up(F.relu(self.down(x.mean((2, 3))))).sigmoid()
        return x * weight[:, :, None, None]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(2, width)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.squeeze = Squeeze(width)

    def forward(self, x):
        return x + self.squeeze(self.second(Swish.apply(self.norm(self.first(x)))))


class Network(nn.Module):
    def __init__(self, config, classes=3):
        super().__init__()
        self.checkpointing = config.checkpointing
        self.stem = nn.Conv2d(1, config.width, 3, stride=2, padding=1)
        self.blocks = nn.ModuleList(Block(config.width) for _ in range(config.depth))
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(config.width, classes)
        self.apply(self.begin)

    @staticmethod
    def begin(module):
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            if self.checkpointing and self.training:
                x = checkpoint(block, x, use_reentrant=False)
            else:
                x = block(x)
        return self.head(self.drop(x.mean((2, 3))))


class Average:
    """A running mean of a model's parameters."""

    def __init__(self, model, decay):
        self.decay = decay
        self.values = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, parameter in model.named_parameters():
            self.values[name].lerp_(parameter, 1 - self.decay)
