"""One weight used a hundred times in a recurrence: all its gradients are summed into one."""

import torch

torch.manual_seed(1)
weight = (torch.randn(4, 4) * 0.4).requires_grad_()
state = torch.ones(1, 4)
for _ in range(100):
    state = torch.tanh(state @ weight) + 0.01
loss = state.square().sum()
loss.backward()

print("loss", round(loss.item(), 5))
print("gradient", weight.grad.norm().item() > 0, tuple(weight.grad.shape))
