import torch
import torch.nn as nn

torch.manual_seed(0)

config = {"lr": 1e-9, "epochs": 5, "hidden": 24}  # ALSO
# FIX config = {"lr": 1e-2, "epochs": 5, "hidden": 24}

net = nn.Sequential(
    nn.Linear(3, config["hidden"]), nn.ReLU(), nn.Linear(config["hidden"], 1)
)
opt = torch.optim.Adam(net.parameters(), lr=config["lr"])  # BUG update-ratio
x = torch.randn(40, 3)
y = x.abs().sum(dim=1, keepdim=True)
for epoch in range(config["epochs"]):
    loss = nn.functional.l1_loss(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item())
