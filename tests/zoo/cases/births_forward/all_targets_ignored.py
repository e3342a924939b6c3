"""Sequence labelling; one batch is padding from end to end."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
IGNORE = -100

embed, head = nn.Embedding(30, 10), nn.Linear(10, 5)
opt = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
tokens = torch.randint(0, 30, (4, 3, 6))
labels = torch.randint(0, 5, (4, 3, 6))
labels[:, :, 4:] = IGNORE
labels[2] = IGNORE


def loss_of(tokens, labels):
    logits = head(embed(tokens)).flatten(0, 1)
    return F.cross_entropy(logits, labels.flatten(), ignore_index=IGNORE)  # BUG non-finite
    # FIX total = F.cross_entropy(logits, labels.flatten(), ignore_index=IGNORE, reduction="sum")
    # FIX return total / (labels != IGNORE).sum().clamp_min(1)


for batch in range(4):
    opt.zero_grad()
    loss = loss_of(tokens[batch], labels[batch])  # ALSO
    loss.backward()
    opt.step()
    print(batch, loss.item())
