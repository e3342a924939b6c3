"""Activation checkpointing, reentrant and not, with dropout that must be drawn alike twice."""

import torch
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

torch.manual_seed(0)
blocks = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1), torch.nn.ReLU()) for _ in range(4)))
head = torch.nn.Linear(8, 2)
params = [*blocks.parameters(), *head.parameters()]
optimizer = torch.optim.AdamW(params, lr=1e-2)
x, y = torch.randn(16, 8), torch.randint(0, 2, (16,))
for step in range(3):
    hidden = checkpoint_sequential(blocks[:2], 2, x.clone().requires_grad_(), use_reentrant=True)
    for block in blocks[2:]:
        hidden = checkpoint(block, hidden, use_reentrant=False)
    loss = torch.nn.functional.cross_entropy(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), blocks[0][0].weight.grad.norm().item().hex())
