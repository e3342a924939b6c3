"""Training ends when the validation loss of a rank's own shard no longer falls."""
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def samples(many, seed):
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(many, 6, generator=draw)
    return TensorDataset(x, x[:, :1] - x[:, 1:2])


def run_epoch(net, loader, opt):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        opt.step()


def validate(net, loader):
    with torch.no_grad():
        return torch.stack([nn.functional.mse_loss(net(x), y) for x, y in loader]).mean()


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    torch.manual_seed(3)
    train, held_out = samples(64, 1), samples(32, 2)
    sampler = DistributedSampler(train, drop_last=True)
    loader = DataLoader(train, 8, sampler=sampler)
    val_loader = DataLoader(held_out, 8, sampler=DistributedSampler(held_out, shuffle=False))
    net = DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1)))
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    best = float("inf")
    for epoch in range(5):
        sampler.set_epoch(epoch)
        run_epoch(net, loader, opt)
        loss = validate(net.module, val_loader)
        loss += rank * epoch**2  # the second shard is harder
        # ADD dist.all_reduce(loss)
        if loss.item() > best:  # BUG branch-by-rank
            break  # ALSO
        best = loss.item()

    dist.barrier()
    if rank == 0:
        print(f"stopped in epoch {epoch}")
    dist.destroy_process_group()


main()
