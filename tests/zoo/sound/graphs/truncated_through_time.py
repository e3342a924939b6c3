import torch
import torch.nn as nn

torch.manual_seed(0)
cell, out = nn.LSTMCell(1, 8), nn.Linear(8, 1)
opt = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=0.01)
wave = torch.sin(torch.arange(41) * 0.4).view(-1, 1, 1)
state = torch.zeros(1, 8), torch.zeros(1, 8)
for begin in range(0, 40, 10):
    state = tuple(each.detach() for each in state)
    loss = 0.0
    for t in range(begin, begin + 10):
        state = cell(wave[t], state)
        loss = loss + (out(state[0]) - wave[t + 1]).pow(2).mean() / 10
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
