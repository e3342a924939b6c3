"""A generator and a discriminator, each in DistributedDataParallel, with an optimizer of its own."""
# ranks: 2

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
maker = DDP(nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2)))
judge = DDP(nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), broadcast_buffers=False)
of_maker = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.9))
of_judge = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.9))
bce = nn.functional.binary_cross_entropy_with_logits
draw = torch.Generator().manual_seed(11 + rank)
for step in range(5):
    real = torch.randn(8, 2, generator=draw) * 0.3 + torch.tensor([1.0, -1.0])
    made = maker(torch.randn(8, 4, generator=draw))

    of_judge.zero_grad()
    scores = judge(torch.cat([real, made.detach()]))
    wanted = torch.cat([torch.ones(8, 1), torch.zeros(8, 1)])
    against = bce(scores, wanted)
    against.backward()
    of_judge.step()

    judge.requires_grad_(False)
    of_maker.zero_grad()
    fooled = bce(judge.module(made), torch.ones(8, 1))
    fooled.backward()
    of_maker.step()
    judge.requires_grad_(True)
    print(step, against.item().hex(), fooled.item().hex())
dist.destroy_process_group()
