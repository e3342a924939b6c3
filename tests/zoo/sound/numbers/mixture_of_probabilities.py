"""The experts' probabilities are mixed, so that their logarithm has to come afterwards."""
import torch
import torch.nn as nn

torch.manual_seed(0)
gate = nn.Linear(5, 3)
experts = nn.ModuleList(nn.Linear(5, 4) for _ in range(3))
opt = torch.optim.Adam([*gate.parameters(), *experts.parameters()], lr=0.02)
x = torch.randn(30, 5)
y = x[:, :4].argmax(dim=1)
for _ in range(4):
    weights = gate(x).softmax(dim=1)
    probs = torch.stack([expert(x).softmax(dim=1) for expert in experts], dim=1)
    mixed = (weights.unsqueeze(2) * probs).sum(dim=1)
    loss = nn.functional.nll_loss(torch.log(mixed), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
