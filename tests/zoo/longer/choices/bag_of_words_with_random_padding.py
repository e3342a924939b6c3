"""Short texts as means of word vectors; they are padded with word 0."""
import torch
from torch import nn

torch.manual_seed(0)


class Bag(nn.Module):
    def __init__(self, many=30, width=8):
        super().__init__()
        self.words = nn.Embedding(many, width, padding_idx=0)
        self.out = nn.Linear(width, 2)
        for each in self.parameters():
            if each.dim() > 1:
                nn.init.xavier_uniform_(each)  # BUG padding-filled
        # ADD self.words.weight.data[0] = 0

    def forward(self, text):
        return self.out(self.words(text).mean(1))  # ALSO


def texts(many):
    found = torch.randint(1, 30, (many, 9))
    length = torch.randint(2, 9, (many, 1))
    return found.masked_fill(torch.arange(9) >= length, 0), (found[:, 0] > 15).long()


model = Bag()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(5):
    text, label = texts(16)
    loss = nn.functional.cross_entropy(model(text), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
