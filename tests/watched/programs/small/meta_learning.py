"""higher: MAML, through an inner loop of differentiable optimizer steps."""
# needs: higher

import higher
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
outer = torch.optim.Adam(model.parameters(), lr=1e-3)
inner = torch.optim.SGD(model.parameters(), lr=1e-2)
for step in range(3):
    outer.zero_grad()
    losses = []
    for task in range(2):
        x = torch.rand(10, 1)
        y = torch.sin(x * (task + 1))
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, steps):
            for _ in range(2):
                steps.step((fast(x) - y).square().mean())
            loss = (fast(x) - y).square().mean() / 2
            loss.backward()
            losses.append(loss.item())
    outer.step()
    print(step, *(each.hex() for each in losses), model[0].weight.grad.norm().item().hex())
