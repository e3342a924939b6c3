"""Cross-attention of queries to a memory; heads are split off by a helper."""
import torch
from torch import nn


def in_heads(x, many):
    return x.reshape(x.shape[0], many, x.shape[1], -1)  # BUG mixed-up-elements
    # FIX return x.reshape(x.shape[0], x.shape[1], many, -1).transpose(1, 2)


class Reader(nn.Module):
    def __init__(self, width, many):
        super().__init__()
        self.many = many
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)

    def forward(self, asks, memory):
        q = in_heads(self.query(asks), self.many)
        k = in_heads(self.key(memory), self.many)
        v = in_heads(self.value(memory), self.many)
        read = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.out(read.transpose(1, 2).flatten(2))


torch.manual_seed(0)
reader = Reader(24, 3)
optimizer = torch.optim.Adam(reader.parameters(), lr=1e-3)
for step in range(4):
    memory = torch.randn(6, 12, 24)
    asks = memory[:, :5] * 2
    loss = (reader(asks, memory) - memory[:, 1:6]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
