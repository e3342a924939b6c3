"""Everything in a program on the device that measurements of its tensors could change."""

import torch
from device import DEVICE, end
from torch.utils._python_dispatch import TorchDispatchMode

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)


class Counted(TorchDispatchMode):
    seen = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen += 1
        return func(*args, **(kwargs or {}))


def step(w, u):
    x = torch.ones(3, 3).to(DEVICE)
    h = (x @ w).tanh()
    y = h * u + h
    y.sum().backward()
    return h, y


w = torch.randn(3, 3).to(DEVICE).requires_grad_()
u = torch.randn(3, 3).to(DEVICE).requires_grad_()
for _ in range(3):
    h, y = step(w, u)
    print([each._version for each in (w, u, w.grad, u.grad, h, y)])
with Counted() as counted:
    step(w, u)
print("dispatched", counted.seen)
with torch.profiler.profile() as profile:
    step(w, u)
print(sorted((each.key, each.count) for each in profile.key_averages()))
with torch.autocast("cpu", torch.bfloat16):
    step(w, u)
    print(torch.is_autocast_enabled("cpu"), torch.is_grad_enabled())
with torch.inference_mode():
    z = (w * 2).tanh()
    print(torch.is_inference_mode_enabled(), z.is_inference(), z.cpu().sum())
with torch.no_grad():
    w.mul_(0.5)
    print(torch.is_grad_enabled(), w.grad_fn)
(third,) = torch.autograd.grad((w * w * w).sum(), w, create_graph=True)
third.sum().backward()
print(
    torch.func.vmap(lambda row: row.cpu() * 2)(w).sum(),
    torch.func.grad(lambda v: v.sin().sum())(w).cpu(),
)
print(w.grad.cpu(), torch.initial_seed(), torch.rand(3))
end()
