import torch
from torch import nn

torch.manual_seed(4)


class RNN(nn.Module):
    def __init__(s, n, h):
        super().__init__()
        s.i2h = nn.Linear(n + h, h)
        s.h2o = nn.Linear(h, n)
        s.h = h

    def forward(s, x, hid):
        hid = torch.tanh(s.i2h(torch.cat((x, hid), 1)))
        return s.h2o(hid), hid


r = RNN(5, 8)
crit = nn.CrossEntropyLoss()
opt = torch.optim.SGD(r.parameters(), lr=0.1, momentum=0.9)
seq = torch.tensor([0, 1, 2, 3, 4, 3, 2, 1, 0])
for e in range(20):
    h = torch.zeros(1, 8)
    loss = 0
    for a, b in zip(seq[:-1], seq[1:]):
        x = nn.functional.one_hot(a, 5).float().unsqueeze(0)
        o, h = r(x, h)
        loss = loss + crit(o, b.unsqueeze(0))
    opt.zero_grad()
    loss.backward()
    opt.step()
    if e % 5 == 0:
        print(
            e, f"{loss.item():.4f}", h[0, :3].tolist() and [round(v, 4) for v in h[0, :3].tolist()]
        )
