"""Parameters are sorted by name into those with and without decay; one list is forgotten."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.mix = nn.Linear(d, d)
        self.act = nn.GELU()

    def forward(self, x):
        return x + self.act(self.mix(self.norm(x)))


class Model(nn.Module):
    def __init__(self, d=16, depth=2):
        super().__init__()
        self.embed = nn.Linear(6, d)
        self.blocks = nn.ModuleList([Block(d) for _ in range(depth)])
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def configure_optimizer(model, lr=1e-3, weight_decay=0.1):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if p.ndim < 2 or name.endswith("bias"):
            no_decay.append(p)
        else:
            decay.append(p)
    groups = [{"params": decay, "weight_decay": weight_decay}]  # ALSO
    # FIX groups = [{"params": decay, "weight_decay": weight_decay}, {"params": no_decay, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=lr)  # BUG not-in-optimizer


def main():
    model = Model()
    optimizer = configure_optimizer(model)
    x = torch.randn(40, 6)
    y = x[:, :1].sin() + x[:, 1:2]
    for it in range(4):
        loss = (model(x) - y).abs().mean()
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=True)
        print(f"iter {it}: {loss.item():.3f}")


main()
