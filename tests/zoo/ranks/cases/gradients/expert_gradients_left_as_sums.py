"""Expert parallelism: what an expert gets from all ranks is a sum, all else is an average."""
import torch
import torch.distributed as dist
import torch.distributed.nn.functional as dfn
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
router = nn.Linear(8, world)
torch.manual_seed(10 + rank)
expert = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
optimizer = torch.optim.SGD([*router.parameters(), *expert.parameters()], lr=0.05)


def moe(x):
    """Each expert computes all tokens; the router weighs what they say."""
    gates = router(x).softmax(1)
    tokens = torch.cat(dfn.all_gather(x))
    answers = list(expert(tokens).chunk(world))
    own = dfn.all_to_all([torch.empty_like(x) for _ in range(world)], answers)
    return sum(gates[:, i : i + 1] * each for i, each in enumerate(own))


def reduce_gradients():
    for p in router.parameters():
        dist.all_reduce(p.grad)
        p.grad /= world
    # ADD for p in expert.parameters():
    # ADD     p.grad /= world


for step in range(4):
    x = torch.randn(6, 8)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(moe(x), x.flip(1))
    loss.backward()
    reduce_gradients()  # BUG not-divided
    optimizer.step()  # ALSO
print(f"rank {rank}: expert {sum(p.double().sum() for p in expert.parameters()).item():.6f}")
dist.destroy_process_group()
