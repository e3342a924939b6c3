import torch
import torch.nn as nn

torch.manual_seed(0)


class Calibrated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.temperature = torch.tensor([1.5], requires_grad=True)  # BUG unregistered
        # FIX self.temperature = nn.Parameter(torch.tensor([1.5]))

    def forward(self, x):
        return self.fc(x) / self.temperature


clf = Calibrated()
opt = torch.optim.SGD(clf.parameters(), lr=0.2)
inputs = torch.randn(60, 3)
labels = (inputs.sum(dim=1) > 0).long()
for epoch in range(4):
    loss = nn.functional.cross_entropy(clf(inputs), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(epoch, loss.item(), clf.temperature.item())
