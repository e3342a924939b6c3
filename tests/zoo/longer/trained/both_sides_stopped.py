"""SimSiam: the stop-gradient is put where the embedding is made, so the backbone never learns."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(4)


def mlp(*dims):
    layers = []
    for i in range(len(dims) - 1):
        layers.append(nn.Linear(dims[i], dims[i + 1]))
        if i < len(dims) - 2:
            layers += [nn.BatchNorm1d(dims[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers)


class SimSiam(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = mlp(12, 24, 24)
        self.projector = mlp(24, 16, 8)
        self.predictor = mlp(8, 6, 8)

    def embed(self, x):
        z = self.projector(self.backbone(x))
        return self.predictor(z.detach()), z.detach()  # BUG graph-cut
        # FIX return self.predictor(z), z.detach()

    def forward(self, a, b):
        pa, za = self.embed(a)
        pb, zb = self.embed(b)
        return -0.5 * (F.cosine_similarity(pa, zb).mean() + F.cosine_similarity(pb, za).mean())


def two_views(x):
    noise = lambda: x + 0.2 * torch.randn_like(x)
    return noise(), noise()


if __name__ == "__main__":
    model = SimSiam()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=3)
    data = torch.randn(48, 12)
    for epoch in range(3):
        for batch in data.split(16):
            loss = model(*two_views(batch))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        print(epoch, loss.item())
