"""Stacks that a program prints and logs from a Function, hooks and modules."""

import logging
import sys
import traceback

import torch

logging.basicConfig(stream=sys.stdout, format="%(funcName)s %(message)s")


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        traceback.print_stack(file=sys.stdout)
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        print(*traceback.format_stack())
        return 2 * grad


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 1)

    def forward(self, x):
        logging.warning("in a module", stack_info=True)
        return Twice.apply(self.linear(x))


def hook(*_):
    logging.error("in a hook", stack_info=True)


torch.manual_seed(0)
model = Model()
model.register_forward_hook(hook)
model.linear.register_forward_pre_hook(hook)
model.linear.weight.register_hook(hook)
out = model(torch.ones(3, 2))
out.register_hook(hook)
out.sum().backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_post_hook(hook)
optimizer.step()
with torch.autograd.detect_anomaly(check_nan=False):
    (model(torch.ones(1, 2)) * 2).sum().backward()
