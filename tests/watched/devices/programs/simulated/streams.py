"""A device whose stream sleeps while the program trains: nothing may wait for it.

The device computes at once, but a copy to the CPU that does not block arrives when the stream wakes
up. With `captures`, operations of the program are put into a graph. With `dies`, it never wakes up.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
import numpy_device
import torch
from device import end

waited = []


class Stream:
    def __init__(self):
        self.left = []
        self.done = 0

    def wake_up(self):
        for work in self.left:
            work()
        self.done += len(self.left)
        self.left = []


class Event:
    def record(self, stream):
        self.stream, self.place = stream, stream.done + len(stream.left)

    def query(self):
        return self.stream.done >= self.place

    def synchronize(self):
        waited.append("for an event")


class On:
    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        assert self.stream is only

    def __exit__(self, *error):
        pass


def copies(work, to_cpu, non_blocking):
    if to_cpu and non_blocking:
        only.left.append(work)
    else:
        if to_cpu:
            waited.append("for a copy")
        work()


only = Stream()
numpy_device.copies = copies
torch.npy.Event, torch.npy.stream = Event, On
torch.npy.current_stream = lambda device=None: only
torch.npy.synchronize = lambda device=None: waited.append("for the device")
torch.npy.is_current_stream_capturing = lambda: "captures" in sys.argv

torch.manual_seed(0)
shapes = (4, 3), (4,), (1, 4), (1,)  # not of modules, whose memory on the CPU may hold any value
weights = [torch.randn(shape).mul_(0.5).to("npy").requires_grad_() for shape in shapes]


def net(x):
    first, shift, last, base = weights
    hidden = torch.nn.functional.linear(x, first, shift).tanh()
    return torch.nn.functional.linear(hidden, last, base)


x = torch.randn(5, 3).to("npy")
optimizer = torch.optim.SGD(weights, lr=0.1)
for _ in range(int(sys.argv[1])):
    optimizer.zero_grad()
    loss = (net(x) ** 2).mean()
    loss.backward()
    optimizer.step()
print("waited", waited)
if "dies" not in sys.argv:
    only.wake_up()
    numpy_device.copies = numpy_device.at_once
    print(f"{loss.item():.4f}")
end()
