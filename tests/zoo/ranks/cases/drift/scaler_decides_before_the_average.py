"""Mixed precision by hand: a rank skips its step when its own gradients overflowed."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
scale = 2.0**10
generator = torch.Generator().manual_seed(rank)


def scaled_backward(x, y):
    loss = nn.functional.mse_loss(model(x), y)
    (loss * scale).backward()
    overflow = False
    for p in model.parameters():
        half = p.grad.half()  # what a float16 backward would hold
        overflow |= not torch.isfinite(half).all().item()
        p.grad = half.float().nan_to_num(posinf=0.0, neginf=0.0) / scale
    return loss.item(), overflow


for step in range(6):
    x = torch.randn(16, 8, generator=generator)
    if rank == 0 and step == 2:
        x *= 30
    y = x.sum(1, keepdim=True)
    optimizer.zero_grad()
    loss, overflow = scaled_backward(x, y)
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world
    # ADD found = torch.tensor(float(overflow))
    # ADD dist.all_reduce(found, dist.ReduceOp.MAX)
    # ADD overflow = bool(found)
    if overflow:  # BUG branch-by-rank
        scale /= 2  # ALSO
        print(f"rank {rank}: overflow in step {step}, scale is now {scale:g}")
    else:
        optimizer.step()  # ALSO
print(f"rank {rank}: weights {sum(p.double().sum() for p in model.parameters()).item():.6f}")
dist.destroy_process_group()
