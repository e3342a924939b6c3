"""A character model trained by truncated backpropagation through time."""
import torch
from torch import nn

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog and runs away " * 4
chars = sorted(set(text))
ids = torch.tensor([chars.index(c) for c in text])
B, L = 4, 10


class CharLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(len(chars), 16)
        self.lstm = nn.LSTM(16, 32)
        self.head = nn.Linear(32, len(chars))

    def forward(self, x, state):
        out, state = self.lstm(self.embed(x), state)
        return self.head(out), state


def repackage(state):
    h, c = state
    return h.detach(), c  # BUG second-backward
    # FIX return h.detach(), c.detach()


model = CharLM()
opt = torch.optim.SGD(model.parameters(), lr=0.5)
columns = ids[: len(ids) // B * B].view(B, -1).t()
state = (torch.zeros(1, B, 32), torch.zeros(1, B, 32))
for start in range(0, 50, L):
    x, y = columns[start : start + L], columns[start + 1 : start + L + 1]
    state = repackage(state)
    logits, state = model(x, state)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    print(start, loss.item())
