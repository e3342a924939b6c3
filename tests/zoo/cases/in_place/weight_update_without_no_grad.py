import torch

torch.manual_seed(0)

xs = torch.linspace(-1, 1, 30).unsqueeze(1)
ys = 3 * xs + 0.5

weight = torch.randn(1, 1, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)
lr = 0.1

for epoch in range(5):
    loss = ((xs @ weight + bias - ys) ** 2).mean()
    loss.backward()
    # ADD with torch.no_grad():
    weight -= lr * weight.grad  # BUG written-in-place
    # FIX     weight -= lr * weight.grad
    bias -= lr * bias.grad
    # FIX     bias -= lr * bias.grad
    weight.grad = None
    bias.grad = None
    print(epoch, loss.item())
