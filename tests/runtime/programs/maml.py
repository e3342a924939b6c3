import torch
import torch.nn.functional as F

torch.manual_seed(5)
W1 = torch.randn(1, 10).mul_(0.5).requires_grad_()
b1 = torch.zeros(10, requires_grad=True)
W2 = torch.randn(10, 1).mul_(0.5).requires_grad_()
b2 = torch.zeros(1, requires_grad=True)
params = [W1, b1, W2, b2]


def net(x, p):
    return torch.relu(x @ p[0] + p[1]) @ p[2] + p[3]


opt = torch.optim.Adam(params, 1e-2)
for it in range(10):
    total = 0
    for task in range(3):
        A, ph = torch.rand(1) * 4 + 0.1, torch.rand(1) * 3
        x = torch.rand(10, 1) * 10 - 5
        y = A * torch.sin(x + ph)
        loss = F.mse_loss(net(x, params), y)
        g = torch.autograd.grad(loss, params, create_graph=True)
        fast = [p - 0.01 * gi for p, gi in zip(params, g)]
        total = total + F.mse_loss(net(x, fast), y)
    opt.zero_grad()
    total.backward()
    opt.step()
    print(it, f"{total.item():.4f}")
