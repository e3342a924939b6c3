"""schedulefree: optimizers that train at one point and evaluate at another, in fused and closure forms."""
# needs: schedulefree
# slow

import schedulefree
import torch

torch.manual_seed(0)
x, y = torch.randn(12, 4), torch.randn(12, 1)
for kind in (schedulefree.AdamWScheduleFree, schedulefree.SGDScheduleFree, schedulefree.RAdamScheduleFree):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 1))
    optimizer = kind(model.parameters(), lr=0.01)
    for step in range(3):
        model.train()
        optimizer.train()
        loss = torch.nn.functional.huber_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        optimizer.eval()
        with torch.no_grad():
            print(kind.__name__, step, loss.item().hex(), model(x).sum().item().hex())
