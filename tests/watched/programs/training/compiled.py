"""torch.compile with the backends that need no compiler: eager and aot_eager."""
# slow

import torch

torch.manual_seed(0)
x, y = torch.randn(16, 6), torch.randn(16, 1)
for backend in ("eager", "aot_eager"):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.SiLU(), torch.nn.Linear(12, 1))
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(3):
        loss = torch.nn.functional.mse_loss(compiled(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(backend, step, loss.item().hex(), model[0].weight.grad.norm().item().hex())
