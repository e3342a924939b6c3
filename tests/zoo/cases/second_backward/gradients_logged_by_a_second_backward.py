import torch
import torch.nn as nn

torch.manual_seed(0)


def gradient_norm(model, loss):
    """For the log."""
    loss.backward()  # BUG second-backward
    # FIX grads = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    return sum(p.grad.norm() ** 2 for p in model.parameters()).sqrt().item()
    # FIX return sum(g.norm() ** 2 for g in grads).sqrt().item()


model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.SGD(model.parameters(), lr=0.05)
x = torch.randn(20, 4)
y = x[:, :2].sum(dim=1, keepdim=True)
for step in range(3):
    loss = nn.functional.mse_loss(model(x), y)
    norm = gradient_norm(model, loss)  # ALSO
    opt.zero_grad()
    loss.backward()  # ALSO
    opt.step()
    print(step, loss.item(), norm)
