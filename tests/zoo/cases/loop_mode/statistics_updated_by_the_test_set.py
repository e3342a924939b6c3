"""After training the test set is shown to the model, which still adapts to it."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 5, 3)
        self.bn = nn.BatchNorm2d(5)
        self.fc = nn.Linear(5, 2)

    def forward(self, x):
        h = F.relu(self.bn(self.conv(x)))
        return self.fc(h.mean(dim=(2, 3)))


model = ConvNet()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
images, labels = torch.rand(16, 1, 7, 7), torch.tensor([0, 1] * 8)
images[labels == 1] *= 0.5
model.train()
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())

test = torch.rand(12, 1, 7, 7) * 3
# ADD model.eval()
with torch.no_grad():
    answers = [model(chunk).argmax(dim=1) for chunk in test.split(4)]  # BUG mode-left
print(torch.cat(answers).tolist())
