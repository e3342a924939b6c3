import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader


class Scores(Dataset):
    """Sentiment scores between 0 and 1."""

    def __init__(self, n=96):
        g = torch.Generator().manual_seed(0)
        self.x = torch.randn(n, 12, generator=g)
        self.y = torch.sigmoid(self.x[:, 0] - self.x[:, 3]).tolist()

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return {"x": self.x[i], "y": self.y[i]}


def collate(items):
    x = torch.stack([it["x"] for it in items])
    y = torch.tensor([it["y"] for it in items]).long()  # BUG truncated
    # FIX y = torch.tensor([it["y"] for it in items])
    return x, y


torch.manual_seed(1)
loader = DataLoader(Scores(), batch_size=16, shuffle=True, collate_fn=collate)
model = nn.Sequential(nn.Linear(12, 24), nn.GELU(), nn.Linear(24, 1), nn.Sigmoid())
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
mse = nn.MSELoss()
for epoch in range(3):
    running = 0.0
    for x, y in loader:
        pred = model(x).squeeze(-1)
        loss = mse(pred, y.float())
        opt.zero_grad()
        loss.backward()
        opt.step()
        running += loss.item() * len(y)
    print(epoch, running / 96)
