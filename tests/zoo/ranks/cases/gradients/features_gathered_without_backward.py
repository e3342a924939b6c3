"""A contrastive loss over the features of all ranks, gathered by a call that has no backward."""
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.nn.functional import all_gather
from torch.nn.parallel import DistributedDataParallel as DDP


class TwoTowers(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.text = nn.Linear(12, 6), nn.Linear(9, 6)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, image, text):
        return F.normalize(self.image(image), dim=1), F.normalize(self.text(text), dim=1), self.scale


def gather(features):
    pieces = [torch.zeros_like(features) for _ in range(dist.get_world_size())]  # ALSO
    # FIX
    dist.all_gather(pieces, features)  # BUG no-gradient-through
    # FIX pieces = all_gather(features)
    return torch.cat(pieces)  # ALSO


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(rank)
model = DDP(TwoTowers())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(4):
    shared = torch.randn(6, 9)
    images = torch.cat([shared, torch.randn(6, 3)], 1)
    image, text, scale = model(images, shared)
    images, texts = gather(image), gather(text)
    labels = torch.arange(len(image)) + rank * len(image)
    loss = F.cross_entropy(scale.exp() * image @ texts.T, labels)
    loss = (loss + F.cross_entropy(scale.exp() * text @ images.T, labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rank {rank}: step {step}, {loss.item():.5f}")
dist.destroy_process_group()
