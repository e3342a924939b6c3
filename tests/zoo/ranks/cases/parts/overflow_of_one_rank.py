"""A loss scaler of its own skips a step if a gradient is too large for float16."""
import torch
import torch.distributed as dist
from torch import nn

LARGEST = 65504.0


def average(params):
    flat = torch.cat([p.grad.flatten() for p in params])
    dist.all_reduce(flat)
    flat /= dist.get_world_size()
    for p, part in zip(params, flat.split([p.numel() for p in params])):
        p.grad.copy_(part.view_as(p))


def too_large(params):
    return torch.stack([p.grad.abs().max() > LARGEST for p in params]).any().float()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
params = list(net.parameters())
opt = torch.optim.Adam(params, lr=1e-2)
draw = torch.Generator().manual_seed(rank)
scale = 1024.0

for step in range(12):
    x = torch.randn(16, 6, generator=draw)
    y = x.sum(1, keepdim=True)
    if step == 4 + 3 * rank:
        y[3] = 5000.0  # an outlier
    opt.zero_grad()
    (scale * nn.functional.mse_loss(net(x), y)).backward()
    overflow = too_large(params)
    # ADD dist.all_reduce(overflow)
    average(params)
    if overflow:  # BUG branch-by-rank
        scale = max(scale / 2, 1.0)
    else:
        for p in params:
            p.grad /= scale
        opt.step()  # ALSO

if rank == 0:
    print(f"scale {scale}, norm {nn.utils.get_total_norm(params).item():.3f}")
dist.destroy_process_group()
