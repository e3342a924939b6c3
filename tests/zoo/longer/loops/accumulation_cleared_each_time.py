"""Gradient accumulation with a zero_grad in every micro-batch: three of four are thrown away."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class TextClassifier(nn.Module):
    def __init__(self, vocab=30, dim=16, classes=2):
        super().__init__()
        self.embedding = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.fc = nn.Linear(dim, classes)

    def forward(self, tokens):
        return self.fc(self.embedding(tokens))


def dataset(n=64, length=7):
    tokens = torch.randint(0, 30, (n, length))
    return TensorDataset(tokens, (tokens.float().mean(dim=1) > 15).long())


def train(model, loader, optimizer, criterion, accumulate=4):
    model.train()
    for i, (tokens, labels) in enumerate(loader):
        optimizer.zero_grad()  # BUG batches-lost
        # FIX
        loss = criterion(model(tokens), labels) / accumulate
        loss.backward()  # ALSO
        if (i + 1) % accumulate == 0:
            optimizer.step()
            # ADD optimizer.zero_grad()
    return loss.item() * accumulate


model = TextClassifier()
loader = DataLoader(dataset(), batch_size=4, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(2):
    print(epoch, train(model, loader, optimizer, nn.CrossEntropyLoss()))
