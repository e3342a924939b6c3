"""Masked tensors, whose class warns whenever one is made, and backwards from leaves of them."""

import warnings

import torch
from torch.masked import masked_tensor

warnings.simplefilter("always")

torch.manual_seed(0)
values = masked_tensor(torch.randn(3, 4), torch.arange(12).reshape(3, 4) % 3 > 0, requires_grad=True)
values.backward(torch.ones(3, 4))
print(values.grad)

other = masked_tensor(torch.ones(2), torch.tensor([True, False]), requires_grad=True)
(gradient,) = torch.autograd.grad((other * 2).sum(), other)
print(gradient.get_data().tolist(), other.grad)
