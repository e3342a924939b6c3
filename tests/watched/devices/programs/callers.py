"""Three threads that call backwards at the same time; the device runs nodes of all of them."""

import threading

import torch
from device import DEVICE, end

found = {}


def work(number):
    w = torch.ones(3, requires_grad=True)
    for _ in range(10):
        y = ((w * 2).to(DEVICE) * number).tanh()
        (y.cpu() * w).sum().backward()
    found[number] = w.grad.tolist()


threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(sorted(found.items()))
end()
