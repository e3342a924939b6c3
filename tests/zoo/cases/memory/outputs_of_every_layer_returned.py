"""The network returns all hidden states; the caller keeps them for a later plot."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Deep(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        states = [x]
        for layer in self.layers:
            states.append(torch.tanh(layer(states[-1])))
        return self.out(states[-1]), states


deep = Deep(3, 16)
opt = torch.optim.SGD(deep.parameters(), lr=0.1)
log = {}
x = torch.randn(32, 16)
y = x[:, :4].mean(dim=1, keepdim=True)
for step in range(4):
    out, states = deep(x)
    log[step] = states[1:]  # BUG history-kept
    # FIX log[step] = [h.detach() for h in states[1:]]
    loss = (out - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
print({step: [round(h.std().item(), 3) for h in states] for step, states in log.items()})
