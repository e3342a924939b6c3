"""A ring passes features on in the background; the next layer reads them before they are there."""
import torch
import torch.distributed as dist
import torch.nn as nn

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
torch.manual_seed(1 + rank)
for step in range(4):
    optimizer.zero_grad()
    own = torch.randn(6, 8)
    other = torch.zeros(6, 8)
    sent = dist.isend(own, (rank + 1) % world)
    received = dist.irecv(other, (rank - 1) % world)  # ALSO
    loss = (net(own) - net(other)).square().mean()  # BUG received-too-late
    # FIX received.wait()
    # FIX loss = (net(own) - net(other)).square().mean()
    received.wait()
    # FIX
    sent.wait()
    loss.backward()
    for parameter in net.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= world
    optimizer.step()
    print(f"rank {rank}: step {step}, loss {loss.item():.4f}")
dist.destroy_process_group()
