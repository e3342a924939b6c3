"""Decoder states written into one preallocated buffer."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Decoder(nn.Module):
    def __init__(self, width, steps):
        super().__init__()
        self.steps = steps
        self.cell = nn.Linear(width, width)
        self.readout = nn.Linear(width, 1)

    def forward(self, start):
        states = torch.zeros(self.steps + 1, *start.shape)
        # FIX states = [start]
        states[0] = start
        # FIX
        for t in range(self.steps):
            states[t + 1] = torch.tanh(self.cell(states[t]))  # BUG written-in-place
            # FIX states.append(torch.tanh(self.cell(states[t])))
        return self.readout(states[1:]).squeeze(-1)
        # FIX return self.readout(torch.stack(states[1:])).squeeze(-1)


decoder = Decoder(width=5, steps=4)
opt = torch.optim.Adam(decoder.parameters(), lr=0.01)
start = torch.randn(8, 5)
target = torch.sin(torch.arange(4.0)).unsqueeze(1).expand(4, 8)
for epoch in range(3):
    loss = (decoder(start) - target).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
