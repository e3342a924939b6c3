"""Warnings are errors, are caught, are recorded, are shown once: none is added, none is lost."""
# true: GS301 a warning ends it on purpose

import warnings

import torch

w = torch.ones(3, requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    out = (w * 2).sum()
    out.grad
    out.backward()
print(*(each.category.__name__ for each in caught))
for _ in range(2):
    warnings.warn("said once", UserWarning, stacklevel=1)
warnings.simplefilter("error")
w.grad = None
(w * 3).sum().backward()
torch.optim.SGD([w], lr=0.1).step()
print(w.tolist())
torch.optim.lr_scheduler.StepLR(torch.optim.SGD([w], lr=0.1), 1).step()
print("not reached")
