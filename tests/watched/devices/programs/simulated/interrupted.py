"""Ctrl-C, and a signal's handler that raises, while a tensor is measured on its device."""

import signal
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import numpy_device
import torch
from device import end

sent = []


def interrupting(*given, **more):
    """Only measurements call it."""
    if sent:
        signal.raise_signal(sent.pop())
    return numpy_device._run(torch.ops.aten.amin.default, *given, **more)


def raises(number, frame):
    raise RuntimeError("a worker was killed")


torch.library.impl("aten::amin", "privateuseone")(interrupting)
signal.signal(signal.SIGUSR1, raises)
w = torch.ones(3).to("npy").requires_grad_()
for number in (signal.SIGINT, signal.SIGUSR1):
    sent.append(number)
    try:
        y = w * 2
        time.sleep(30)
        print("nothing came")
    except KeyboardInterrupt:
        print("interrupted")
    except RuntimeError as error:
        print(error)
y = w * 3
y.sum().backward()
print(w.grad.cpu())
end()
