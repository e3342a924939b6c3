import torch
import torch.nn as nn
import torch.nn.functional as F


class AttnPool(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.score = nn.Linear(d, 1)

    def forward(self, h):
        w = F.softmax(self.score(h).squeeze(-1), dim=0)  # BUG wrong-dim
        # FIX w = F.softmax(self.score(h).squeeze(-1), dim=1)
        return torch.einsum("bt,btd->bd", w, h)


class TextNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(60, 16)
        self.rnn = nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.pool = AttnPool(32)
        self.cls = nn.Linear(32, 4)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.cls(self.pool(h))


torch.manual_seed(0)
net = TextNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(5):
    ids = torch.randint(0, 60, (12, 9))
    y = ids[:, 0] % 4
    loss = F.cross_entropy(net(ids), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
