import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class SetClassifier(nn.Module):
    """Self-attention over the elements of a set, then a pooled prediction."""

    def __init__(self, d_in=5, d=16, heads=4, classes=3):
        super().__init__()
        self.embed = nn.Linear(d_in, d)
        self.attn = nn.MultiheadAttention(d, heads)  # BUG wrong-dim
        # FIX self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.norm = nn.LayerNorm(d)
        self.head = nn.Linear(d, classes)

    def forward(self, x):
        h = self.embed(x)
        a, _ = self.attn(h, h, h)  # ALSO
        h = self.norm(h + a)
        return self.head(h.mean(dim=1))


model = SetClassifier()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
sets = torch.randn(60, 9, 5)
labels = sets.mean(1)[:, :3].argmax(1)
for epoch in range(2):
    for i in range(0, 60, 20):
        loss = F.cross_entropy(model(sets[i : i + 20]), labels[i : i + 20])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
