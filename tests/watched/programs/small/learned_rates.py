"""higher: a learning rate is learned through steps of Adam, and a model runs on weights it is given."""
# needs: higher

import warnings

warnings.simplefilter("ignore")
import higher
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
x, y = torch.randn(12, 3), torch.randn(12, 1)
rate = torch.tensor(0.05, requires_grad=True)
outer = torch.optim.SGD([rate], lr=1e-3)
for step in range(3):
    inner = torch.optim.Adam(model.parameters(), lr=0.05)
    with higher.innerloop_ctx(model, inner, override={"lr": [rate]}, track_higher_grads=True) as (fast, steps):
        for part in range(3):
            loss = (fast(x[part * 3 : part * 3 + 3]) - y[part * 3 : part * 3 + 3]).square().mean()
            steps.step(loss, grad_callback=lambda grads: [g.clamp(-1, 1) for g in grads])
        valid = (fast(x[9:]) - y[9:]).square().mean()
    outer.zero_grad()
    valid.backward()
    outer.step()
    print(step, valid.item().hex(), rate.grad.item().hex(), rate.item().hex())
patched = higher.monkeypatch(model, copy_initial_weights=True)
weights = [p.detach().clone().requires_grad_() for p in model.parameters()]
for _ in range(2):
    loss = torch.nn.functional.huber_loss(patched(x, params=weights), y)
    grads = torch.autograd.grad(loss, weights, create_graph=True)
    weights = [w - 0.1 * g for w, g in zip(weights, grads)]
mixed = torch.autograd.grad(patched(x, params=weights).mean(), patched.parameters(time=-1), allow_unused=True)
print(loss.item().hex(), *(g.norm().item().hex() for g in mixed if g is not None))
