"""A graph network classifies members of two clubs by their contacts, with scatter_add."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 60
MEMBERS = 40


class GraphConv(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x, source, target, norm):
        messages = self.linear(x)[source] * norm
        place = target.unsqueeze(1).expand_as(messages)
        return torch.zeros(len(x), messages.shape[1]).scatter_add(0, place, messages)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GraphConv(MEMBERS, 16), GraphConv(16, 2)

    def forward(self, x, *graph):
        hidden = F.dropout(F.relu(self.conv1(x, *graph)), p=0.2, training=self.training)
        return F.log_softmax(self.conv2(hidden, *graph), dim=1)


torch.manual_seed(0)
club = (torch.arange(MEMBERS) >= MEMBERS // 2).long()
friendly = torch.where(club.unsqueeze(0) == club.unsqueeze(1), 0.3, 0.05)
talks = torch.rand(MEMBERS, MEMBERS).triu(1) > 1 - friendly.triu(1)
talks = (talks | talks.T).fill_diagonal_(True)
source, target = talks.nonzero(as_tuple=True)
degree = talks.sum(dim=1).to(torch.get_default_dtype())
norm = (degree[source] * degree[target]).rsqrt().unsqueeze(1)
known = torch.tensor([0, 1, MEMBERS - 2, MEMBERS - 1])  # members with known labels

model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=5e-4)
for step in range(STEPS):
    out = model(torch.eye(MEMBERS), source, target, norm)
    loss = F.nll_loss(out[known], club[known])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == STEPS - 1:
        right = (out.argmax(dim=1) == club).float().mean().item()
        print(f"step {step:2d}  loss {loss.item():.4f}  right {right:.2f}")
