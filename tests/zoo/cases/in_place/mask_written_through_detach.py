"""The loss of padded positions is silenced by zeroing predictions afterwards."""
import torch
import torch.nn as nn

torch.manual_seed(0)

rnn = nn.RNN(3, 6, batch_first=True)
lin = nn.Linear(6, 3)
opt = torch.optim.SGD([*rnn.parameters(), *lin.parameters()], lr=0.05)

seq = torch.randn(4, 6, 3)
lengths = [6, 4, 5, 3]


def run(seq):
    out, _ = rnn(seq)
    gate = torch.sigmoid(lin(out))
    return gate


for it in range(3):
    gate = run(seq)
    pred = gate * seq
    shown = gate.detach()  # ALSO
    # FIX shown = gate.detach().clone()
    for row, n in enumerate(lengths):
        shown[row, n:] = 0.0  # BUG written-in-place
    loss = (pred[:, :-1] - seq[:, 1:]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(it, loss.item(), "mean gate", shown.sum().item() / sum(lengths) / 3)
