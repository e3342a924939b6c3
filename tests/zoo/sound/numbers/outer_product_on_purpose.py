import torch

torch.manual_seed(0)
x = torch.linspace(-2, 2, 20)
centres = torch.linspace(-2, 2, 6).requires_grad_()
weights = torch.zeros(6, requires_grad=True)
opt = torch.optim.Adam([centres, weights], lr=0.05)
y = torch.sin(2 * x)
for _ in range(4):
    basis = torch.exp(-((x.unsqueeze(1) - centres) ** 2))
    loss = ((basis * weights).sum(dim=1) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
