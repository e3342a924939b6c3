"""Attention pooling over padded sequences."""
import math

import torch
from torch import nn

torch.manual_seed(0)


class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Parameter(torch.randn(width) / math.sqrt(width))
        self.out = nn.Linear(width, 2)

    def forward(self, tokens, lengths):
        scores = tokens @ self.query
        pad = torch.arange(tokens.size(1)) >= lengths.unsqueeze(1)
        scores = scores.masked_fill(pad, float("-inf"))  # ALSO
        # FIX scores = scores.masked_fill(pad, -1e9)
        weights = torch.softmax(scores, dim=1)  # BUG non-finite
        pooled = (weights.unsqueeze(-1) * tokens).sum(dim=1)
        return self.out(pooled)


batch = torch.randn(6, 7, 10)
lengths = torch.tensor([7, 3, 5, 0, 2, 6])  # one sentence came out empty
labels = torch.tensor([0, 1, 1, 0, 0, 1])

model = Pool(10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
loss_fn = nn.CrossEntropyLoss()
for epoch in range(3):
    optimizer.zero_grad()
    loss = loss_fn(model(batch, lengths), labels)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
