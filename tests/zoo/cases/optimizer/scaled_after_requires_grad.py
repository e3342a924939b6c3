import torch

torch.manual_seed(0)

x = torch.randn(30, 5)
y = (x[:, 0] - x[:, 3]).unsqueeze(1)

w = torch.randn(5, 1, requires_grad=True) * 0.1  # BUG not-a-leaf
# FIX w = (torch.randn(5, 1) * 0.1).requires_grad_(True)
b = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([w, b], lr=0.1)  # ALSO

for i in range(4):
    loss = ((x @ w + b - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item())
