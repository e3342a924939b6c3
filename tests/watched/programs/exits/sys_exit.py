"""Ends by sys.exit with a text, which goes to stderr, and exit code 1."""
# slow

import sys

import torch

w = torch.ones(3, requires_grad=True)
(w * 2).sum().backward()
print(w.grad.tolist())
sys.exit("early stop: the loss is low enough")
