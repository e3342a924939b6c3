"""Children by os.fork and by multiprocessing's fork, each of which trains and reports through a pipe."""

import multiprocessing
import os
import sys

import torch


def train(seed, send=None):
    torch.manual_seed(seed)
    layer = torch.nn.Linear(4, 1)
    loss = layer(torch.randn(8, 4)).square().mean()
    loss.backward()
    text = f"{seed} {loss.item().hex()} {layer.weight.grad.norm().item().hex()}"
    if send is not None:
        send.send(text)
    return text


if __name__ == "__main__":
    torch.set_num_threads(1)
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, train(1).encode())
        os._exit(3)
    _, status = os.waitpid(child, 0)
    print(os.read(read, 1000).decode(), os.waitstatus_to_exitcode(status))
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe()
    process = context.Process(target=train, args=(2, send))
    process.start()
    process.join()
    print(receive.recv(), process.exitcode)
    print(train(3))
    sys.stdout.flush()
