"""Noise on the weights (Langevin dynamics) is drawn with each rank's own seed."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class SGLD(torch.optim.Optimizer):
    def __init__(self, params, lr, temperature=1e-4):
        super().__init__(params, {"lr": lr, "temperature": temperature})
        # ADD self.generator = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            scale = (2 * group["lr"] * group["temperature"]) ** 0.5
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"])
                p.add_(torch.randn_like(p), alpha=scale)  # BUG random-by-rank
                # FIX p.add_(torch.randn(p.shape, generator=self.generator), alpha=scale)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)  # another part of the data on each rank
model = DDP(nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 1)))
sampler = SGLD(model.parameters(), lr=0.05)
for step in range(6):
    x = torch.randn(16, 6)
    y = x.prod(1, keepdim=True)
    sampler.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    sampler.step()  # ALSO
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
