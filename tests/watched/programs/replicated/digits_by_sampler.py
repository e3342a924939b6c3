"""DistributedDataParallel as in the tutorial: a sampler, workers, an evaluation, a checkpoint of rank 0."""
# ranks: 2

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def dataset(seed: int, many: int) -> TensorDataset:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(many, 12, generator=draw)
    return TensorDataset(x, (x[:, :4].sum(1) > 0).long() + 2 * (x[:, 4:8].sum(1) > 0).long())


@torch.no_grad()
def accuracy(model: nn.Module, loader: DataLoader) -> float:
    model.eval()
    counts = torch.zeros(2)
    for x, y in loader:
        counts += torch.tensor([(model(x).argmax(1) == y).sum().item(), len(y)])
    dist.all_reduce(counts)
    model.train()
    return (counts[0] / counts[1]).item()


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 4)))
    torch.manual_seed(1 + rank)
    train, held_out = dataset(1, 70), dataset(2, 32)
    sampler = DistributedSampler(train, shuffle=True, seed=3)
    loader = DataLoader(train, batch_size=8, sampler=sampler, num_workers=1, drop_last=True)
    tests = DataLoader(held_out, batch_size=8, sampler=DistributedSampler(held_out, shuffle=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    path = os.path.join(folder[0], "best.pt")
    best = 0.0
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
        found = accuracy(model, tests)
        print(epoch, loss.item().hex(), found)
        if found > best:
            best = found
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}, path)
            dist.barrier()
    saved = torch.load(path)
    model.module.load_state_dict(saved["model"])
    print(best, accuracy(model, tests))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
