import torch
import torch.nn as nn

torch.manual_seed(0)

model = nn.Sequential(
    nn.Linear(8, 32),
    nn.ReLU(),
    nn.Linear(32, 4),
    nn.LogSoftmax(dim=1),  # BUG double-softmax
    # FIX
)
criterion = nn.CrossEntropyLoss()  # ALSO
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

inputs = torch.randn(60, 8)
targets = inputs[:, :4].argmax(dim=1)
for epoch in range(4):
    optimizer.zero_grad()
    loss = criterion(model(inputs), targets)  # ALSO
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
