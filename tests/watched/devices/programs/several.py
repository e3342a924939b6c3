"""A model whose halves are on two devices; the first one computes on a stream of its own."""

import torch
from device import DEVICE, end

torch.manual_seed(0)
one, other = torch.device(DEVICE, 0), torch.device(DEVICE, 1)
before, after = torch.nn.Linear(4, 3), torch.nn.Linear(3, 1)
x = torch.randn(5, 4).to(one)
before.to(one)
after.to(other)
optimizer = torch.optim.SGD([*before.parameters(), *after.parameters()], lr=0.1)
side = torch.Stream(device=one)
side.wait_stream(torch.accelerator.current_stream(one))
for _ in range(4):
    optimizer.zero_grad()
    with side:
        hidden = torch.tanh(before(x))
    torch.accelerator.current_stream(one).wait_stream(side)
    loss = after(hidden.to(other)).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}", f"{before.weight.grad.sum().item():.4f}")
end()
