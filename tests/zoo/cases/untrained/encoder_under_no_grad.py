"""A helper written for inference is used in training."""
import torch
import torch.nn as nn

torch.manual_seed(0)


class Audio(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Conv1d(1, 6, 5, stride=2)
        self.back = nn.Linear(6, 2)

    # ADD def features(self, wave):
    @torch.no_grad()  # ALSO
    # FIX     return torch.relu(self.front(wave)).mean(dim=2)
    def features(self, wave):  # ALSO
    # FIX
        return torch.relu(self.front(wave)).mean(dim=2)  # BUG graph-cut
        # FIX

    def forward(self, wave):
        return self.back(self.features(wave))


net = Audio()
opt = torch.optim.Adam(net.parameters(), lr=0.01)
waves = torch.randn(10, 1, 40)
labels = torch.tensor([0, 1] * 5)
waves[labels == 1] += torch.sin(torch.arange(40.0))
for epoch in range(4):
    opt.zero_grad()
    loss = nn.functional.cross_entropy(net(waves), labels)
    loss.backward()
    opt.step()
    print(epoch, loss.item())
