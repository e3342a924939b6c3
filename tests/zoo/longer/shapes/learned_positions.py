"""A small sequence tagger with learned positions, pooled for a score."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Scorer(nn.Module):
    def __init__(self, vocab=24, width=12, longest=32):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(longest, width)
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, ids):
        h = self.token(ids)
        places = self.position(torch.arange(ids.size(0)))
        # FIX places = self.position(torch.arange(ids.size(1)))
        h = h + places.unsqueeze(1)  # BUG wrong-dim
        # FIX h = h + places.unsqueeze(0)
        h = h + F.gelu(self.mix(self.norm(h)))
        return self.score(h.mean(dim=1)).squeeze(-1)


torch.manual_seed(0)
net = Scorer()
opt = torch.optim.Adam(net.parameters(), lr=3e-3)
for step in range(5):
    ids = torch.randint(0, 24, (16, 9))
    wanted = (ids * torch.arange(1, 10)).float().mean(1) / 60
    loss = F.mse_loss(net(ids), wanted)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
