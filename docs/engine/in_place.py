import torch

x = torch.ones(3, requires_grad=True)
base = x * 2
row = base[:2]
row.mul_(10)
base.sum().backward()
