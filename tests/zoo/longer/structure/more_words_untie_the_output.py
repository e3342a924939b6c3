"""A model of words gets three more words before it is trained."""
import torch
from torch import nn

torch.manual_seed(0)


class Words(nn.Module):
    def __init__(self, many, width=12):
        super().__init__()
        self.parts = nn.ModuleDict({"words": nn.Embedding(many, width)})
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, many, bias=False)
        self.out.weight = self.parts.words.weight

    def more(self, many):
        before = self.parts.words.weight.data
        words, out = nn.Embedding(many, before.size(1)), nn.Linear(before.size(1), many)
        words.weight.data[: len(before)] = before
        self.parts.words = words  # ALSO
        self.out = out  # BUG untied
        # ADD self.out.weight = self.parts.words.weight

    def forward(self, x):
        states, _ = self.rnn(self.parts.words(x))
        return self.out(states)


model = Words(20)
model.more(23)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
text = torch.randint(0, 23, (8, 11))
for step in range(4):
    logits = model(text[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
