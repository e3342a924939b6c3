import torch
import torch.nn as nn

torch.manual_seed(0)


class Ensemble(nn.Module):
    def __init__(self, members, width):
        super().__init__()
        self.members = nn.ModuleList(nn.Linear(width, 1) for _ in range(members))
        self.weights = nn.Parameter(torch.zeros(members))

    def forward(self, x):
        each = [m(x).squeeze(1) for m in self.members]
        votes = torch.tensor([v.tolist() for v in each])  # BUG graph-cut
        # FIX votes = torch.stack(each)
        return torch.softmax(self.weights, dim=0) @ votes


ensemble = Ensemble(4, 6)
optimizer = torch.optim.Adam(ensemble.parameters(), lr=0.05)
data = torch.randn(40, 6)
goal = data @ torch.randn(6)
for epoch in range(4):
    out = ensemble(data)
    loss = nn.functional.mse_loss(out, goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, f"{loss.item():.4f}")
