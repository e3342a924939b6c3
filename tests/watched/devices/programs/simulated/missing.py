"""A device without an operation that only gradscope needs: it warns and is not implemented."""

import sys
import warnings
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import numpy_device  # noqa: F401 -- it adds the device
import torch
from device import end


def missing(*given, **more):
    warnings.warn("npy: amin falls back to nothing", stacklevel=2)
    raise NotImplementedError("npy has no amin")


torch.library.impl("aten::amin", "privateuseone")(missing)
w = torch.ones(3, requires_grad=True)
for _ in range(3):
    (w.to("npy") * 2).tanh().sum().backward()
print(w.grad, warnings.filters[0][0])
end()
