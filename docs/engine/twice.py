import torch

x = torch.tensor([1.0, 2.0], requires_grad=True)

for factor in (2, 3):
    loss = (x * factor).sum()
    loss.backward()
