"""An ensemble of models trained at once by vmap over stacked parameters."""
# slow

import torch
from torch.func import functional_call, grad_and_value, stack_module_state, vmap

torch.manual_seed(0)
models = [torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)) for _ in range(3)]
params, buffers = stack_module_state(models)
params = {name: p.detach() for name, p in params.items()}
base = models[0]
x, y = torch.randn(3, 20, 2), torch.randn(3, 20, 1)


def loss(params, buffers, x, y):
    return torch.nn.functional.mse_loss(functional_call(base, (params, buffers), (x,)), y)


step = vmap(grad_and_value(loss))
for _ in range(5):
    grads, losses = step(params, buffers, x, y)
    params = {name: p - 0.1 * grads[name] for name, p in params.items()}
    print(*(each.item().hex() for each in losses))
