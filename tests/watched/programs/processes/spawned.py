"""Children by spawn that put gradients into shared memory; one of them fails."""
# slow

import torch
import torch.multiprocessing as mp


def work(rank, shared):
    if rank == 2:
        raise SystemExit(5)
    torch.manual_seed(rank)
    w = torch.randn(4, requires_grad=True)
    w.exp().sum().backward()
    shared[rank].copy_(w.grad)


if __name__ == "__main__":
    shared = torch.zeros(3, 4).share_memory_()
    children = [mp.get_context("spawn").Process(target=work, args=(rank, shared)) for rank in range(3)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    print([child.exitcode for child in children], shared[0].norm().item().hex(), shared[2].sum().item())
    w = torch.ones(4, requires_grad=True)
    (w * shared[1]).sum().backward()
    print(w.grad.norm().item().hex())
