import torch
import torch.nn as nn

torch.manual_seed(0)

X = torch.randn(40, 4)
Y = X @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])

net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.02)
criterion = nn.MSELoss()

for epoch in range(6):
    prediction = net(X)
    loss = criterion(prediction, Y)
    # ADD opt.zero_grad()
    loss.backward()  # BUG gradients-add-up
    opt.step()  # ALSO
    print(epoch, loss.item())
