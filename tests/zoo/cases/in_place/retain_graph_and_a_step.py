"""The state is carried on, retain_graph silences one error, and the step causes another."""
import torch
import torch.nn as nn

torch.manual_seed(0)

cell = nn.GRUCell(2, 8)
out = nn.Linear(8, 2)
optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.05)
signal = torch.randn(5, 4, 2).cumsum(dim=0) * 0.2

h = torch.zeros(4, 8)
for now, following in zip(signal, signal[1:]):
    h = cell(now, h)  # BUG written-in-place
    # FIX h = cell(now, h.detach())
    loss = (out(h) - following).pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # ALSO
    # FIX loss.backward()
    optimizer.step()  # ALSO
    print(loss.item())
