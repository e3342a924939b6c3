"""The loss of all examples so far is walked again at each of them."""
import torch
import torch.nn as nn

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(3, 10), nn.Tanh(), nn.Linear(10, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
examples = torch.randn(6, 3)

for epoch in range(2):
    optimizer.zero_grad()
    total = 0.0
    for x in examples:
        total = total + (net(x) - x.max()).pow(2).mean()  # ALSO
        total.backward(retain_graph=True)  # BUG graph-retained
        # FIX
    # ADD (total / len(examples)).backward()
    optimizer.step()
    print(epoch, total.item() / len(examples))
