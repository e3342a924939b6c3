"""Errors of autograd that a program catches and prints: writes in place, freed graphs, wrong inputs."""

import torch

torch.manual_seed(0)


def told(what, act):
    try:
        act()
    except (RuntimeError, TypeError) as error:
        print(f"{what}: {type(error).__name__}: {error}")


w = torch.randn(3, requires_grad=True)
kept = w.exp()
kept.mul_(2)
told("written over", kept.sum().backward)
told("leaf", lambda: w.add_(1))
loss = (w * w).sum()
loss.backward()
told("freed", loss.backward)
told("no scalar", (w * 2).backward)
told("unused", lambda: torch.autograd.grad((w * 2).sum(), torch.ones(2, requires_grad=True)))
told("no history", torch.ones(1).sum().backward)
with torch.autograd.detect_anomaly():
    hidden = torch.sigmoid(w)
    hidden += 1
    told("in anomaly mode", hidden.sum().backward)
print(w.grad.norm().item().hex())
