"""Ends by SIGTERM with no handler, as a scheduler ends a job."""

import os
import signal

import torch

w = torch.ones(3, requires_grad=True)
(w * 2).sum().backward()
print(w.grad.tolist(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
