"""Sequence classification: words are pooled over the wrong axis."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

WORDS, WIDTH = 10, 10


class BagOfWords(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, WIDTH)
        self.fc = nn.Linear(WIDTH, 2)

    def forward(self, ids):
        vectors = self.embed(ids)
        return self.fc(vectors.mean(dim=2))  # BUG wrong-dim
        # FIX return self.fc(vectors.mean(dim=1))


model = BagOfWords()
opt = torch.optim.Adam(model.parameters(), lr=0.03)
ids = torch.randint(0, 40, (24, WORDS))
labels = (ids < 20).float().mean(dim=1).gt(0.5).long()
for epoch in range(4):
    loss = F.cross_entropy(model(ids), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
