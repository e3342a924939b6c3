import torch
import torch.nn as nn

torch.manual_seed(0)


class LM(nn.Module):
    def __init__(self, words=12, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.decode = nn.Linear(width, words, bias=False)
        self.decode.weight = self.embed.weight

    def forward(self, ids):
        return self.decode(self.rnn(self.embed(ids))[0])


lm = LM()
opt = torch.optim.Adam(lm.parameters(), lr=3e-3)
ids = (torch.arange(9) + torch.arange(6).unsqueeze(1)) % 12
for _ in range(3):
    loss = nn.functional.cross_entropy(lm(ids[:, :-1]).transpose(1, 2), ids[:, 1:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
