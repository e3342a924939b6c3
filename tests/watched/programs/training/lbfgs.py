"""LBFGS with a line search: its closure runs many times a step."""
# slow

import torch

torch.manual_seed(0)
x = torch.linspace(-2, 2, 40).unsqueeze(1)
y = torch.sin(2 * x)
model = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=6, line_search_fn="strong_wolfe")
calls = 0


def closure():
    global calls
    calls += 1
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x), y)
    loss.backward()
    return loss


for step in range(4):
    loss = optimizer.step(closure)
    print(step, calls, loss.item().hex(), model[0].weight.grad.norm().item().hex())
