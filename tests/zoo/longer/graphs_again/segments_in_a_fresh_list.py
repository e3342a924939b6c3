"""A recurrent net over segments: the states of all layers are gathered anew in each of them."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stack(nn.Module):
    def __init__(self, width=12, layers=3):
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(width, width) for _ in range(layers))
        self.read = nn.Linear(width, width)
        self.states = [torch.zeros(8, width) for _ in range(layers)]

    def forward(self, segment):
        out = []
        for x in segment:
            fresh = []
            for cell, state in zip(self.cells, self.states):
                x = cell(x, state)
                fresh.append(x)  # BUG second-backward
            self.states = fresh  # ALSO
            out.append(self.read(x))
        # ADD self.states = [state.detach() for state in self.states]
        return torch.stack(out)


torch.manual_seed(0)
net = Stack()
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
stream = torch.randn(24, 8, 12).cumsum(0) / 5
for begin in range(0, 20, 4):
    segment, after = stream[begin : begin + 4], stream[begin + 1 : begin + 5]
    loss = F.mse_loss(net(segment), after)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(begin, loss.item())
