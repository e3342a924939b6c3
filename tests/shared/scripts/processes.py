import multiprocessing
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.5), nn.Linear(8, 1))


def said(name, *values):
    print(name, *(v.tolist() if isinstance(v, torch.Tensor) else v for v in values), flush=True)


def gradients(model):
    return [p.grad.tolist() for p in model.parameters()]


def of_process(queue, seed):
    torch.manual_seed(seed)
    model = network()
    model(torch.randn(2, 4)).sum().backward()
    queue.put(gradients(model))


def processes():
    model = network()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        model(torch.ones(2, 4)).sum().backward()
        os.write(write, repr(gradients(model)).encode())
        os._exit(3)
    said(
        "fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), os.read(read, 1 << 16).decode()
    )
    spawning = multiprocessing.get_context("spawn")
    queue = spawning.Queue()
    other = spawning.Process(target=of_process, args=(queue, 3))
    other.start()
    said("spawn", queue.get(), other.join(), other.exitcode)
    data = TensorDataset(torch.arange(8.0).reshape(4, 2))
    for (batch,) in DataLoader(data, 2, num_workers=1, multiprocessing_context="spawn"):
        said("loader", batch)


if __name__ == "__main__":
    torch.set_num_threads(1)
    processes()
