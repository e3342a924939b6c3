"""Saved tensors packed into half precision and on disk, by saved_tensors_hooks; save_on_cpu."""

import os
import tempfile

import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Sigmoid(), torch.nn.Linear(6, 1))
x = torch.randn(9, 6)


class OnDisk:
    def __init__(self, tensor):
        handle, self.name = tempfile.mkstemp()
        os.close(handle)
        torch.save(tensor, self.name)

    def load(self):
        tensor = torch.load(self.name)
        os.remove(self.name)
        return tensor


with torch.autograd.graph.saved_tensors_hooks(lambda t: (t.dtype, t.half()), lambda kept: kept[1].to(kept[0])):
    net(x).sum().backward()
print(net[0].weight.grad.norm().item().hex())
net.zero_grad()
with torch.autograd.graph.saved_tensors_hooks(OnDisk, OnDisk.load):
    net(x).square().sum().backward()
print(net[0].weight.grad.norm().item().hex())
net.zero_grad()
with torch.autograd.graph.save_on_cpu():
    net(x).exp().sum().backward()
print(net[0].weight.grad.norm().item().hex())
