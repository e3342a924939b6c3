import torch
import torch.nn.functional as F

torch.manual_seed(0)
w1 = (torch.randn(1, 10) * 0.7).requires_grad_()
w2 = (torch.randn(10, 1) * 0.3).requires_grad_()
opt = torch.optim.Adam([w1, w2], lr=0.01)


def forward(x, params):
    return torch.tanh(x @ params[0]) @ params[1]


for it in range(3):
    total = 0.0
    for _ in range(2):
        scale = torch.rand(1) + 0.5
        x = torch.randn(12, 1)
        y = scale * torch.sin(x)
        loss = F.mse_loss(forward(x[:6], (w1, w2)), y[:6])
        grads = torch.autograd.grad(loss, (w1, w2), create_graph=True)
        fast = [p - 0.1 * g for p, g in zip((w1, w2), grads)]
        total = total + F.mse_loss(forward(x[6:], fast), y[6:]) / 2
    opt.zero_grad()
    total.backward()
    opt.step()
    print(it, total.item())
