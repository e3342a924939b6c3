"""Each optimizer of torch.optim takes a few steps, then its state is saved and loaded."""
# slow

import io

import torch

MAKERS = {
    "Adadelta": {}, "Adagrad": {"lr": 0.1}, "Adam": {"amsgrad": True}, "AdamW": {"foreach": False},
    "Adamax": {}, "ASGD": {}, "NAdam": {}, "RAdam": {}, "RMSprop": {"centered": True},
    "Rprop": {}, "SGD": {"lr": 0.05, "momentum": 0.9, "nesterov": True},
}
x, y = torch.randn(20, 5, generator=torch.Generator().manual_seed(1)), torch.ones(20, 1)
for name, options in MAKERS.items():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ELU(), torch.nn.Linear(8, 1))
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.huber_loss(model(x), y)
        loss.backward()
        optimizer.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    file.seek(0)
    kept = torch.load(file)
    optimizer.load_state_dict(kept["optimizer"])
    print(name, loss.item().hex(), model[0].weight.grad.norm().item().hex(), len(kept["optimizer"]["state"]))
