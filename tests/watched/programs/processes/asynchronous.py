"""Training in coroutines: tasks that take turns, one that is cancelled, one in a thread."""
# slow

import asyncio

import torch


async def train(seed, steps):
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(5, generator=generator).requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (w.cos() * w).sum()
        loss.backward()
        optimizer.step()
        await asyncio.sleep(0)
    return loss.item().hex(), w.grad.norm().item().hex()


def slope():
    x = torch.arange(3.0, requires_grad=True)
    x.exp().sum().backward()
    return x.grad.sum().item().hex()


async def main():
    endless = asyncio.create_task(train(9, 10_000_000))
    print(*await asyncio.gather(train(1, 5), train(2, 7), asyncio.to_thread(slope)))
    endless.cancel()
    try:
        await endless
    except asyncio.CancelledError:
        print("cancelled")


asyncio.run(main())
