"""detect_anomaly finds the NaN, and the program catches the error and goes another way."""

import torch

x = torch.zeros(3, requires_grad=True)
with torch.autograd.set_detect_anomaly(True, check_nan=True):
    try:
        (x.sqrt() * 0).sum().backward()
    except RuntimeError as error:
        print("caught:", str(error).splitlines()[0])
y = torch.ones(3, requires_grad=True)
(y.clamp(min=1e-8).sqrt() * 2).sum().backward()
print(*(each.hex() for each in y.grad.tolist()))
