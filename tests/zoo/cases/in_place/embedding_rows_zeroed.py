"""The padding row of an embedding is reset by hand, after it was looked up."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
PAD = 0


class Tagger(nn.Module):
    def __init__(self, vocabulary=20, width=8, tags=4):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocabulary, width) * 0.3)
        self.mix = nn.Linear(width, width)
        self.out = nn.Linear(width, tags)

    def forward(self, tokens):
        # ADD with torch.no_grad():
        # ADD     self.table[PAD] = 0.0
        scale = 1 + self.table.pow(2).mean(dim=1)
        h = torch.tanh(self.mix(self.table[tokens])) * scale[tokens].unsqueeze(-1)
        with torch.no_grad():
        # FIX
            self.table[PAD] = 0.0  # BUG written-in-place
            # FIX
        return self.out(h * self.table[tokens])


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
tokens = torch.randint(0, 20, (6, 5))
tags = torch.randint(0, 4, (6, 5))
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
