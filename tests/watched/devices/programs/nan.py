"""NaN that is born on the device: first in a backward, then in a forward."""

import torch
from device import DEVICE, end

w = torch.tensor([0.0, 1.0, 4.0]).to(DEVICE).requires_grad_()
y = w.sqrt() * torch.tensor([0.0, 1.0, 1.0]).to(DEVICE)
y.sum().backward()
print(w.grad.cpu())
x = torch.ones(3, requires_grad=True)
(x.to(DEVICE) - 2).log().cpu().sum().backward()
print(x.grad)
end()
