"""Truncated backpropagation; `detach()` is called and what it returns is thrown away."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class CharRNN(nn.Module):
    def __init__(self, vocab=10, hidden=20):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cell = nn.RNNCell(hidden, hidden)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, tokens, h):
        logits = []
        for t in range(tokens.shape[1]):
            h = self.cell(self.embed(tokens[:, t]), h)
            logits.append(self.out(h))
        return torch.stack(logits, 1), h


text = torch.arange(200).remainder(10).view(4, 50)
model = CharRNN()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)


def train(window=10):
    h = torch.zeros(4, 20)
    losses = []
    for start in range(0, 40, window):
        x, y = text[:, start : start + window], text[:, start + 1 : start + window + 1]
        h.detach()  # BUG no-effect
        # FIX h = h.detach()
        logits, h = model(x, h)  # ALSO
        loss = criterion(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


for epoch in range(2):
    print(epoch, train())
