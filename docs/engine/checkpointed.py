import torch
from torch.utils.checkpoint import checkpoint

x = torch.tensor([1.0, 2.0], requires_grad=True)


def part(x):
    return torch.sin(x).exp()


loss = checkpoint(part, x, use_reentrant=False).sum()
loss.backward()
