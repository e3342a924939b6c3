"""Run by `python -m`, with a package's way of looking at itself, and left by exit code 3."""
# as a module
# arguments: one two

import sys

import torch

print(__name__, __spec__.name, sys.argv[1:], __package__ == "")
w = torch.tensor(2.0, requires_grad=True)
(w**3).backward()
print(w.grad.item().hex())
raise SystemExit(3)
