"""A linear warm-up: `//` keeps the rate at zero until it is over."""
import torch
import torch.nn as nn

torch.manual_seed(0)

WARM_UP = 10


def rate(step):
    return min(1.0, (step + 1) // WARM_UP)  # BUG update-ratio
    # FIX return min(1.0, (step + 1) / WARM_UP)


net = nn.Sequential(nn.Linear(5, 20), nn.ReLU(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)  # ALSO
for step in range(6):
    x = torch.randn(32, 5)
    loss = nn.functional.mse_loss(net(x), x.mean(dim=1, keepdim=True))
    opt.zero_grad()
    loss.backward()
    opt.step()  # ALSO
    sched.step()
    print(step, loss.item())
