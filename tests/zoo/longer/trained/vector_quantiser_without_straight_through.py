"""A VQ-VAE whose quantiser forgets the straight-through estimator."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class VectorQuantizer(nn.Module):
    def __init__(self, n_codes=16, dim=6, beta=0.25):
        super().__init__()
        self.codebook = nn.Embedding(n_codes, dim)
        self.codebook.weight.data.uniform_(-0.5, 0.5)
        self.beta = beta

    def forward(self, z):
        distances = torch.cdist(z, self.codebook.weight)
        codes = distances.argmin(dim=1)  # BUG graph-cut
        quantised = self.codebook(codes)  # ALSO
        codebook_loss = F.mse_loss(quantised, z.detach())
        # FIX codebook_loss = F.mse_loss(quantised, z.detach()) + self.beta * F.mse_loss(z, quantised.detach())
        # ADD quantised = z + (quantised - z).detach()
        return quantised, codebook_loss, codes


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 6))
        self.vq = VectorQuantizer()
        self.dec = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 10))

    def forward(self, x):
        q, vq_loss, codes = self.vq(self.enc(x))
        return self.dec(q), vq_loss, codes


def train_epoch(model, optimizer, data):
    running = 0.0
    for x in data.split(20):
        optimizer.zero_grad()
        rec, vq_loss, codes = model(x)
        loss = F.mse_loss(rec, x) + vq_loss
        loss.backward()
        optimizer.step()
        running += loss.item() * len(x)
    return running / len(data)


model = VQVAE()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
data = torch.randn(80, 10)
for epoch in range(3):
    print(epoch, train_epoch(model, optimizer, data))
