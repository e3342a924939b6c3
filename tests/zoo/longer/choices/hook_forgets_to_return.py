"""Gradients of an embedding table are masked, so that frozen words keep their vectors."""
import torch
from torch import nn

torch.manual_seed(0)
WORDS, FROZEN = 24, 8
table = nn.Embedding(WORDS, 6)
reader = nn.Linear(6, 2)
keep = torch.ones(WORDS, 1)
keep[:FROZEN] = 0.0


def only_new_words(grad):
    grad * keep  # BUG no-effect
    # FIX return grad * keep


table.weight.register_hook(only_new_words)
optimizer = torch.optim.SGD([*table.parameters(), *reader.parameters()], lr=0.2)
before = table.weight.detach().clone()
for step in range(4):
    words = torch.randint(0, WORDS, (16, 3))
    label = (words[:, 0] > 12).long()
    loss = nn.functional.cross_entropy(reader(table(words).mean(dim=1)), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    moved = (table.weight.detach() - before)[:FROZEN].abs().max().item()
    print(step, loss.item(), moved)
