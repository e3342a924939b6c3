"""Triplet-like loss over all pairs of a batch of embeddings."""
import torch
from torch import nn

torch.manual_seed(11)


def pairwise(emb):
    diff = emb.unsqueeze(0) - emb.unsqueeze(1)
    return diff.pow(2).sum(dim=-1).sqrt()  # BUG non-finite
    # FIX return (diff.pow(2).sum(dim=-1) + 1e-12).sqrt()


def contrastive(emb, labels, margin=1.0):
    d = pairwise(emb)
    same = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    pull = same * d
    push = (1 - same) * torch.relu(margin - d)
    return (pull + push).mean()


embed = nn.Sequential(nn.Linear(5, 12), nn.Tanh(), nn.Linear(12, 3))
opt = torch.optim.Adam(embed.parameters(), lr=5e-3)
points, labels = torch.randn(14, 5), torch.randint(0, 2, (14,))
for step in range(3):
    loss = contrastive(embed(points), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
