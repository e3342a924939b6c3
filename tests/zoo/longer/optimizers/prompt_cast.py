"""Soft prompt tuning in front of a frozen encoder."""
import torch
import torch.nn as nn


class Prompted(nn.Module):
    def __init__(self, encoder, n_tokens=4, dim=16):
        super().__init__()
        self.encoder = encoder
        for p in self.encoder.parameters():
            p.requires_grad_(False)
        self.prompt = nn.Parameter(torch.randn(n_tokens, dim)) * 0.02  # BUG unregistered
        # FIX self.prompt = nn.Parameter(torch.randn(n_tokens, dim) * 0.02)
        self.head = nn.Linear(dim, 2)

    def forward(self, x):
        prompts = self.prompt.expand(x.size(0), -1, -1)
        h = self.encoder(torch.cat([prompts, x], dim=1))
        return self.head(h.mean(1))


torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
model = Prompted(encoder)
trainable = [p for p in model.parameters() if p.requires_grad]
opt = torch.optim.Adam(trainable, lr=1e-2)
for step in range(4):
    x, y = torch.randn(10, 6, 16), torch.randint(0, 2, (10,))
    opt.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward(retain_graph=True)
    # FIX loss.backward()
    opt.step()
