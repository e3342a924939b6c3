"""Damaged samples are skipped where they are found; the other rank then waits in its backward."""
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Clips(torch.utils.data.Dataset):
    def __init__(self, rank):
        self.rank = rank
        self.frames = torch.randn(24, 10, generator=torch.Generator().manual_seed(rank))

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        if self.rank == 1 and index == 9:
            raise OSError(f"clip {index} is truncated")
        return self.frames[index], self.frames[index, :2]


def main():
    dist.init_process_group("gloo", timeout=timedelta(seconds=10))
    rank = dist.get_rank()
    dataset = Clips(rank)
    model = DDP(nn.Linear(10, 2))
    optimizer = torch.optim.Adam(model.parameters())

    for step, first in enumerate(range(0, len(dataset), 4)):
        try:
            pairs = [dataset[i] for i in range(first, first + 4)]
        except OSError as error:
            print(f"rank {rank}, step {step}: {error}, skipping the batch", flush=True)
            continue  # BUG branch-by-rank
            # FIX pairs = [dataset[0]] * 4
        x, y = (torch.stack(each) for each in zip(*pairs))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    print(f"rank {rank}: {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
