"""Gradients are averaged by hand, but only in the last of four steps: each step is taken alone."""
import torch
import torch.distributed as dist
import torch.nn as nn

ACCUMULATE = 4

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def average():
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)  # ALSO
        parameter.grad /= dist.get_world_size()


torch.manual_seed(1 + rank)
for micro in range(1, 9):
    x = torch.randn(4, 10)
    loss = nn.functional.mse_loss(model(x), x.amax(1, keepdim=True)) / ACCUMULATE
    loss.backward()
    last = micro % ACCUMULATE == 0  # ALSO
    if last:  # ALSO
        average()  # ALSO
    optimizer.step()  # BUG not-averaged
    # FIX if last: optimizer.step()
    optimizer.zero_grad()  # ALSO
    # FIX if last: optimizer.zero_grad()
    print(f"rank {rank}: {micro}, loss {loss.item() * ACCUMULATE:.4f}")
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
