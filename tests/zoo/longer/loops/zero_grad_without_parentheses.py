"""`optimizer.zero_grad` is named and not called."""

import torch
import torch.nn as nn

torch.manual_seed(0)


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o, bias=False)

    def forward(self, x, adjacency):
        return adjacency @ self.lin(x)


class GCN(nn.Module):
    def __init__(self, features, hidden, classes):
        super().__init__()
        self.l1, self.l2 = GCNLayer(features, hidden), GCNLayer(hidden, classes)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, adjacency):
        return self.l2(self.drop(torch.relu(self.l1(x, adjacency))), adjacency)


def normalised_adjacency(n, p=0.2):
    a = (torch.rand(n, n) < p).float()
    a = ((a + a.t()) > 0).float() + torch.eye(n)
    d = a.sum(1).rsqrt()
    return d[:, None] * a * d[None, :]


n = 30
adjacency, x = normalised_adjacency(n), torch.randn(n, 5)
labels = torch.randint(0, 3, (n,))
train_mask = torch.arange(n) < 20
model = GCN(5, 16, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for epoch in range(5):
    model.train()
    optimizer.zero_grad  # BUG gradients-add-up
    # FIX optimizer.zero_grad()
    out = model(x, adjacency)
    loss = nn.functional.cross_entropy(out[train_mask], labels[train_mask])
    loss.backward()  # ALSO
    optimizer.step()
    model.eval()
    with torch.no_grad():
        accuracy = (model(x, adjacency).argmax(1) == labels)[~train_mask].float().mean()
    print(epoch, loss.item(), accuracy.item())
