"""retain_graph=True silenced the error: the state's graph is walked further each step."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w_in = nn.Linear(2, 6)
        self.w_rec = nn.Parameter(torch.eye(6) * 0.9)
        self.readout = nn.Linear(6, 1)

    def step(self, x, state):
        return torch.tanh(self.w_in(x) + state @ self.w_rec)


net = Net()
state = torch.zeros(1, 6)
inputs = torch.randn(6, 1, 2)
total = {name: torch.zeros_like(p) for name, p in net.named_parameters()}
for x in inputs:
    state = net.step(x, state)  # BUG graph-grows
    # FIX state = net.step(x, state.detach())
    loss = (net.readout(state) - x.sum()).pow(2).mean()
    net.zero_grad()
    loss.backward(retain_graph=True)  # ALSO
    # FIX loss.backward()
    for name, p in net.named_parameters():
        total[name] += p.grad
    print(loss.item())
with torch.no_grad():
    for name, p in net.named_parameters():
        p -= 0.02 * total[name] / len(inputs)
