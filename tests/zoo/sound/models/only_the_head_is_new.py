"""Transfer: all but the head is loaded, which strict=False lets pass."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.ReLU())
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x))


state = {name: value for name, value in Net(10).state_dict().items() if name.startswith("body")}
net = Net(2)
net.load_state_dict(state, strict=False)
opt = torch.optim.Adam(
    [{"params": net.body.parameters(), "lr": 1e-3}, {"params": net.head.parameters(), "lr": 1e-2}]
)
x = torch.randn(24, 5)
for _ in range(3):
    loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
