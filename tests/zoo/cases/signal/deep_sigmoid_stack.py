import torch
import torch.nn as nn

torch.manual_seed(0)


def build(depth, width):
    layers = [nn.Linear(2, width)]
    for _ in range(depth):
        layers += [nn.Sigmoid(), nn.Linear(width, width)]  # BUG vanishing
        # FIX layers += [nn.ReLU(), nn.Linear(width, width)]
    layers += [nn.Sigmoid(), nn.Linear(width, 1)]  # ALSO
    # FIX layers += [nn.ReLU(), nn.Linear(width, 1)]
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


net = build(depth=10, width=12)
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
x = torch.rand(32, 2) * 2 - 1
y = x[:, :1] * x[:, 1:]
for epoch in range(5):
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(epoch, loss.item(), net[0].weight.grad.norm().item())
