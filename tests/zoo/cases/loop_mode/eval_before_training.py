"""A model is loaded for inference first, then fine-tuned."""
import io

import torch
import torch.nn as nn

torch.manual_seed(0)


def build():
    return nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))


def restore(file):
    model = build()
    model.load_state_dict(torch.load(file))
    model.eval()  # BUG mode-left
    # FIX
    return model


saved = io.BytesIO()
torch.save(build().state_dict(), saved)
saved.seek(0)

model = restore(saved)  # ALSO
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
for step in range(4):
    x = torch.randn(20, 4) * 3 + 2
    y = x.mean(dim=1, keepdim=True)
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
