"""A NaN produced in backward: the square root of 0 is finite, its derivative times 0 is not."""

import torch

distance = torch.tensor([0.0, 4.0, 9.0], requires_grad=True)
visible = torch.tensor([False, True, True])

length = torch.sqrt(distance)
shown = torch.where(visible, length, torch.zeros(3))
loss = shown.sum()
loss.backward()

print("loss", loss.item())
print("gradient", distance.grad)
