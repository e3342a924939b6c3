import torch
from torch import nn

torch.manual_seed(0)


class Relational(nn.Module):
    """One weight per relation."""

    RELATIONS = ("likes", "knows", "owns")

    def __init__(self, width):
        super().__init__()
        self.weights = {r: nn.Parameter(torch.randn(width, width) * 0.2) for r in self.RELATIONS}  # BUG unregistered
        # FIX self.weights = nn.ParameterDict({r: nn.Parameter(torch.randn(width, width) * 0.2) for r in self.RELATIONS})
        self.score = nn.Linear(width, 1)

    def forward(self, head, relation, tail):
        return self.score(torch.tanh(head @ self.weights[relation]) * tail).squeeze(1)


model = Relational(6)
optim = torch.optim.Adagrad(model.parameters(), lr=0.05)
criterion = nn.BCEWithLogitsLoss()
for epoch in range(3):
    total = 0.0
    for relation in Relational.RELATIONS:
        head, tail = torch.randn(8, 6), torch.randn(8, 6)
        truth = (head * tail).sum(dim=1).gt(0).float()
        optim.zero_grad()
        loss = criterion(model(head, relation, tail), truth)
        loss.backward()
        optim.step()
        total += loss.item()
    print(epoch, total / 3)
