"""An LSTM language model learns a rhyme letter by letter, and then generates it."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 150
TEXT = (
    "the node that made the loss begins the run and hands its gradient to every one before it; "
    "what they add they pass along until the leaves have heard the song. "
)
letters = sorted(set(TEXT))
ids = torch.tensor([letters.index(letter) for letter in TEXT])


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width=64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids, state=None):
        out, state = self.lstm(self.embedding(ids), state)
        return self.head(out), state


torch.manual_seed(0)
model = LanguageModel(len(letters))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(STEPS):
    starts = torch.randint(len(ids) - 31, (16,))
    windows = torch.stack([ids[start : start + 31] for start in starts])
    logits, _ = model(windows[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 25 == 0 or step == STEPS - 1:
        print(f"step {step:3d}  loss {loss.item():.4f}")

letter, state, said = ids[:1].view(1, 1), None, letters[ids[0]]
with torch.no_grad():
    for _ in range(60):
        logits, state = model(letter, state)
        letter = logits[:, -1].argmax(dim=-1, keepdim=True)
        said += letters[letter.item()]
print(said)
