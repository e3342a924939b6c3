"""zuko: flows by splines and by masked networks, one with a context, one trained from samples of an energy."""
# needs: zuko
# slow

import warnings

warnings.simplefilter("ignore")
import torch
import zuko

torch.manual_seed(0)
angle = torch.rand(24, 1) * 3.14
moons = torch.cat([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(24, 2)
flows = {
    "spline": zuko.flows.NSF(2, context=1, transforms=2, bins=4, hidden_features=(8,)),
    "masked": zuko.flows.MAF(2, context=1, transforms=2, hidden_features=(8, 8), randperm=True),
    "neural": zuko.flows.UNAF(2, context=1, transforms=1, hidden_features=(8,), signal=2, network={"hidden_features": (6,)}),
}
for name, flow in flows.items():
    optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
    for step in range(3):
        loss = -flow(angle).log_prob(moons).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        norms = sum(p.grad.norm() for p in flow.parameters() if p.grad is not None)
        print(name, step, loss.item().hex(), norms.item().hex())
flow = zuko.flows.NICE(2, transforms=2, hidden_features=(8,))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
for step in range(3):
    x, log_density = flow().rsample_and_log_prob((16,))
    energy = (x.square().sum(1) - 1).square()
    loss = (log_density + energy).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("energy", step, loss.item().hex())
with torch.no_grad():
    print(flows["masked"](angle[:1]).sample((2,)).shape)
