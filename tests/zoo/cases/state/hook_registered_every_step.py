import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)

model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
norms = []


def soften(grad):
    norms.append(grad.norm().item())
    return 0.9 * grad


# ADD model[0].weight.register_hook(soften)
for step in range(5):
    model[0].weight.register_hook(soften)  # BUG hooked-again
    # FIX
    x = torch.randn(20, 5)
    y = x[:, :3].argmax(dim=1)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(step, loss.item(), len(norms))
