"""A variational autoencoder on toy data; the encoder's last layer gives the spread."""

import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Encoder(nn.Module):
    def __init__(self, in_dim, hidden, latent):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(in_dim, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.to_mean = nn.Linear(hidden, latent)
        self.to_std = nn.Linear(hidden, latent)

    def forward(self, x):
        h = self.body(x)
        return self.to_mean(h), torch.relu(self.to_std(h))  # ALSO
        # FIX return self.to_mean(h), nn.functional.softplus(self.to_std(h)) + 1e-4


class Decoder(nn.Module):
    def __init__(self, latent, hidden, out_dim):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, out_dim))

    def forward(self, z):
        return self.layers(z)


class VAE(nn.Module):
    def __init__(self, in_dim=12, hidden=24, latent=4):
        super().__init__()
        self.encoder = Encoder(in_dim, hidden, latent)
        self.decoder = Decoder(latent, hidden, in_dim)

    def forward(self, x):
        mean, std = self.encoder(x)
        z = mean + std * torch.randn_like(std)
        return self.decoder(z), mean, std


def elbo(x, rec, mean, std):
    rec_term = (rec - x).pow(2).sum(dim=1).mean()
    kl = 0.5 * (mean.pow(2) + std.pow(2) - 1 - 2 * torch.log(std)).sum(dim=1).mean()  # BUG non-finite
    return rec_term + 0.1 * kl, rec_term.detach(), kl.detach()


def get_data(count=96, dim=12):
    base = torch.randn(count, 3)
    mix = torch.randn(3, dim) / math.sqrt(3)
    return TensorDataset(base @ mix + 0.05 * torch.randn(count, dim))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args([])
    torch.manual_seed(7)
    loader = DataLoader(get_data(), batch_size=args.batch_size, shuffle=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        total = 0.0
        for (x,) in loader:
            rec, mean, std = model(x)
            loss, rec_term, kl = elbo(x, rec, mean, std)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
