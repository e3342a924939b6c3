"""pytorch-optimizer: Muon for matrices with AdamW for the rest, Shampoo and SOAP, on a small convolution."""
# needs: pytorch_optimizer
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from pytorch_optimizer import SOAP, Muon, Shampoo, get_optimizer_parameters

generator = torch.Generator().manual_seed(1)
x, y = torch.randn(12, 1, 6, 6, generator=generator), torch.randint(0, 3, (12,), generator=generator)


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(64, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3))


def muon(model):
    flat = [p for p in model.parameters() if p.ndim < 2]
    return Muon([{"params": [p for p in model.parameters() if p.ndim == 2], "use_muon": True}, {"params": flat + [model[0].weight], "use_muon": False}])


def shampoo(model):
    return Shampoo(get_optimizer_parameters(model, 1e-2, ["bias"]), lr=1e-3)


def soap(model):
    return SOAP(model.parameters(), lr=3e-3, precondition_frequency=2)


for make in (muon, shampoo, soap):
    model = network()
    optimizer = make(model)
    for step in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        print(make.__name__, step, loss.item().hex(), model[3].weight.norm().item().hex())
