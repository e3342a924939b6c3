"""pytorch-optimizer: optimizers with odd closures, lookahead and gradients that are perturbed."""
# needs: pytorch_optimizer
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from pytorch_optimizer import SAM, AdaBelief, Lion, Lookahead, Prodigy, load_optimizer

x, y = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)), torch.ones(20, 1)


def trained(make, closure=False):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Mish(), torch.nn.Linear(8, 1))
    optimizer = make(model.parameters())
    for _ in range(3):

        def again():
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            return loss

        optimizer.zero_grad()
        loss = again()
        optimizer.step(again) if closure else optimizer.step()
    return loss.item().hex(), model[0].weight.grad.norm().item().hex() if model[0].weight.grad is not None else None


print("lion", *trained(lambda params: Lion(params, lr=1e-3)))
print("adabelief", *trained(lambda params: AdaBelief(params, lr=1e-3)))
print("prodigy", *trained(lambda params: Prodigy(params, lr=1.0)))
print("lookahead", *trained(lambda params: Lookahead(torch.optim.SGD(params, lr=0.05), k=2)))
print("adan", *trained(lambda params: load_optimizer("adan")(params, lr=1e-3)))
print("sam", *trained(lambda params: SAM(params, base_optimizer=torch.optim.SGD, lr=0.05), closure=True))
