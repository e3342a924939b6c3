"""A loss has learnable weights for its terms; only the model is wrapped in DDP."""
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class UncertaintyLoss(nn.Module):
    def __init__(self, tasks=2):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(tasks))

    def forward(self, losses):
        return (torch.exp(-self.log_var) * torch.stack(losses) + self.log_var).sum()


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(nn.Sequential(nn.Linear(10, 20), nn.ReLU(), nn.Linear(20, 2)))
criterion = UncertaintyLoss()  # BUG outside-of-ddp
# FIX criterion = DDP(UncertaintyLoss())
optimizer = torch.optim.Adam([*model.parameters(), *criterion.parameters()], lr=1e-2)  # ALSO
for step in range(5):
    x = torch.randn(8, 10)
    optimizer.zero_grad()
    depth, flow = model(x).unbind(1)
    losses = [(depth - x[:, 0]).abs().mean(), (flow - 4 * x[:, 1]).square().mean()]
    loss = criterion(losses)
    loss.backward()
    optimizer.step()
log_var = next(criterion.parameters()).tolist()
print(f"rank {rank}: log variances {log_var}")
dist.destroy_process_group()
