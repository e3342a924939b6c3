"""Ends by os._exit in the middle of a backward; only what was flushed is written."""

import os

import torch

w = torch.ones(3, requires_grad=True)
print("written", flush=True)
loss = (w * 2).sum()
loss.register_hook(lambda grad: os._exit(7))
print("lost", end="")
loss.backward()
