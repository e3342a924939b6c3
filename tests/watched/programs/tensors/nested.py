"""Sequences of unequal length as one jagged nested tensor, through a small network."""

import torch

torch.manual_seed(0)
rows = [torch.randn(n, 6) for n in (3, 5, 2)]
layer = torch.nn.Linear(6, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(3):
    batch = torch.nested.nested_tensor(rows, layout=torch.jagged)
    out = torch.nn.functional.relu(layer(batch))
    loss = sum(each.square().mean() for each in out.unbind()) / len(rows)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), layer.weight.grad.norm().item().hex())
