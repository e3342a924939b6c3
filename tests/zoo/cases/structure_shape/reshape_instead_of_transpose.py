import torch
import torch.nn as nn

torch.manual_seed(0)


class Heads(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        b, n, w = x.shape
        return x.reshape(b, self.heads, n, w // self.heads)  # BUG mixed-up-elements
        # FIX return x.reshape(b, n, self.heads, w // self.heads).transpose(1, 2)

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = map(self.split, self.qkv(x).chunk(3, dim=-1))  # ALSO
        att = (q @ k.transpose(-1, -2) / (w // self.heads) ** 0.5).softmax(dim=-1)
        mixed = (att @ v).transpose(1, 2).reshape(b, n, w)
        return self.out(mixed)


layer, readout = Heads(8, 2), nn.Linear(8, 2)
opt = torch.optim.Adam([*layer.parameters(), *readout.parameters()], lr=0.01)
x = torch.randn(10, 5, 8)
y = (x[:, :, 0].sum(dim=1) > 0).long()
for step in range(4):
    loss = nn.functional.cross_entropy(readout(layer(x).mean(dim=1)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
