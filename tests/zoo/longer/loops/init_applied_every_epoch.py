"""An epoch function that prepares the model again each time."""
import torch
import torch.nn as nn


def weights_init(m):
    if isinstance(m, nn.Linear):
        nn.init.kaiming_uniform_(m.weight)  # ALSO
        nn.init.zeros_(m.bias)  # ALSO


def run_epoch(model, opt, batches):
    model.apply(weights_init)  # BUG weights-reset
    # FIX
    for x, y in batches:
        opt.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
    return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 3))
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
x = torch.randn(60, 6)
batches = list(zip(x.split(20), x[:, :3].argmax(1).split(20)))
for epoch in range(4):
    print(run_epoch(model, opt, batches))
