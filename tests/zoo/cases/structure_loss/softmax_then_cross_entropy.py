import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.fc = nn.Linear(4 * 4 * 4, 5)

    def forward(self, img):
        h = F.max_pool2d(F.relu(self.conv(img)), 2)
        out = self.fc(h.flatten(1))
        return F.softmax(out, dim=1)  # BUG double-softmax
        # FIX return out


images = torch.rand(20, 1, 8, 8)
labels = torch.randint(0, 5, (20,))
model = Digits()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)  # ALSO
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
