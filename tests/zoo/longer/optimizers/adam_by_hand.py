"""Adam written out, with parameters in a dictionary."""
import torch

torch.manual_seed(0)
params = {"w1": torch.randn(4, 16).mul_(0.5), "b1": torch.zeros(16), "w2": torch.randn(16, 1).mul_(0.3)}
for p in params.values():
    p.requires_grad_()
m = {k: torch.zeros_like(p) for k, p in params.items()}
v = {k: torch.zeros_like(p) for k, p in params.items()}
x = torch.randn(64, 4)
y = torch.sin(x).sum(1, keepdim=True)


def model(x):
    return torch.relu(x @ params["w1"] + params["b1"]) @ params["w2"]


def adam(t, lr=0.02):
    with torch.no_grad():
        for k, p in params.items():
            m[k].mul_(0.9).add_(p.grad, alpha=0.1)
            v[k].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            hat = (m[k] / (1 - 0.9**t)) / ((v[k] / (1 - 0.999**t)).sqrt() + 1e-8)
            p.sub_(hat, alpha=lr)  # ALSO
            # ADD p.grad = None


for t in range(1, 9):
    loss = (model(x) - y).pow(2).mean()
    loss.backward()  # BUG gradients-add-up
    adam(t)  # ALSO
    print(t, loss.item())
