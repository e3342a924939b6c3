"""torch.func: grad, vmap, jacrev, jacfwd, hessian, functional_call; gradients for each sample."""

import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, vmap

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.GELU(), torch.nn.Linear(6, 1))
params = {name: p.detach() for name, p in model.named_parameters()}
x, y = torch.randn(10, 3), torch.randn(10, 1)


def loss(params, x, y):
    return (functional_call(model, params, (x.unsqueeze(0),)).squeeze(0) - y).square().mean()


each = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
for name, value in each.items():
    print(name, tuple(value.shape), value.norm().item().hex())


def energy(q):
    return (q.sin() * q).sum() + q.prod()


point = torch.randn(4)
print(jacrev(energy)(point).norm().item().hex())
print(jacfwd(energy)(point).norm().item().hex())
print(hessian(energy)(point).norm().item().hex())
print(vmap(jacrev(energy))(torch.randn(5, 4)).norm().item().hex())
