"""A quantised autoencoder of small pictures: the commitment loss is there, the estimator is not."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Quantise(nn.Module):
    def __init__(self, codes=12, dim=6, beta=0.25):
        super().__init__()
        self.book = nn.Embedding(codes, dim)
        nn.init.uniform_(self.book.weight, -1 / codes, 1 / codes)
        self.beta = beta

    def forward(self, z):
        b, c, h, w = z.shape
        flat = z.permute(0, 2, 3, 1).reshape(-1, c)
        codes = torch.cdist(flat, self.book.weight).argmin(dim=1)
        rows = self.book(codes)  # BUG graph-cut
        loss = F.mse_loss(rows, flat.detach()) + self.beta * F.mse_loss(flat, rows.detach())
        # ADD rows = flat + (rows - flat).detach()
        return rows.view(b, h, w, c).permute(0, 3, 1, 2), loss


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(
            nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(), nn.Conv2d(8, 6, 4, 2, 1)
        )
        self.quantise = Quantise()
        self.dec = nn.Sequential(
            nn.ConvTranspose2d(6, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1)
        )

    def forward(self, x):
        q, loss = self.quantise(self.enc(x))
        return self.dec(q), loss  # ALSO


torch.manual_seed(0)
net = Autoencoder()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(4):
    x = torch.rand(8, 1, 16, 16)
    again, extra = net(x)
    loss = F.mse_loss(again, x) + extra
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
