"""Python takes down what a program leaves behind, also in a child that it has forked."""
# true: GS301 it raises on purpose

import os
import sys
import threading

import torch
from torch import nn


class Left:
    """All that is left, in one object: in which order others go is up to the garbage collector."""

    def __init__(self):
        self.model = nn.Linear(3, 1)
        self.model.register_forward_hook(self.looks)
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.show, self.ones, self.process, self.parent = print, torch.ones, os.getpid, os.getpid()

    def looks(self, model, inputs, result):
        assert model is self.model

    def step(self):
        self.model(torch.ones(2, 3)).sum().backward()
        self.optimizer.step()

    def __del__(self):
        grad, total = self.model.weight.grad, (2 * self.ones(3)).sum()
        self.show("goes with", total.item(), grad is not None, self.process() == self.parent)


def ends():
    of_function = Left()
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    raise ValueError("the end", type(of_function.model))


torch.manual_seed(0)
left = Left()
left.step()
main = threading.main_thread()
threading.Thread(target=lambda: (main.join(), print("a thread ends"))).start()
ends()
