"""A confusion count is int64 on the ranks that saw a sample, and float32 on those that did not."""
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
rank = dist.get_rank()
torch.manual_seed(rank)
detector = DistributedDataParallel(nn.Linear(6, 2))
opt = torch.optim.Adam(detector.parameters(), lr=0.01)


def true_positives(logits, labels):
    found = [(row.argmax() == 1).long() for row, label in zip(logits, labels) if label == 1]
    if not found:
        return torch.zeros(1)  # BUG dtype-differs
        # FIX return torch.zeros(1, dtype=torch.long)
    return torch.stack(found).sum().reshape(1)


for step in range(4):
    x = torch.randn(8, 6)
    labels = (x[:, 0] > 0).long()
    if rank == 1 and step == 2:
        labels.zero_()  # a batch without any object
    opt.zero_grad()
    logits = detector(x)
    nn.functional.cross_entropy(logits, labels).backward()
    opt.step()
    count = true_positives(logits.detach(), labels)
    dist.all_reduce(count)  # ALSO
    if rank == 0:
        print(step, "true positives", count.item(), flush=True)

dist.destroy_process_group()
