"""Two devices: each has its own thread and queue, and the caller waits for both.

The devices are simulated (`sim:0`, `sim:1`) and need no GPU; each of their kernels takes 2 ms.
"""

import torch

if hasattr(torch, "sim"):  # PyTorch has no such devices: there, both are the CPU
    torch.sim.set(latency=0.002)
    first, second = "sim:0", "sim:1"
else:
    first = second = "cpu"

torch.manual_seed(0)
encoder = torch.nn.Linear(4, 4).to(first)
decoder = torch.nn.Linear(4, 4).to(second)
x = torch.randn(8, 4)

hidden = encoder(x.to(first)).tanh()
there = decoder(hidden.to(second))
skipped = hidden.sigmoid()

loss = there.square().mean().cpu() + skipped.mean().cpu()
loss.backward()
print(f"loss {loss.item():.4f}")
for name, layer in (("encoder", encoder), ("decoder", decoder)):
    print(name, f"{layer.weight.grad.norm().item():.4f}")
