"""Random graphs with nodes on the CPU and on the device."""

import random
import sys

import torch
from device import DEVICE, end


def graph(chosen):
    leaves = [torch.full((3,), 0.5 + 0.1 * i).requires_grad_() for i in range(3)]
    leaves += [torch.full((3,), 0.3 + 0.1 * i).to(DEVICE).requires_grad_() for i in range(3)]
    made = list(leaves)
    for _ in range(chosen.randint(5, 40)):
        a, b = chosen.choice(made), chosen.choice(made)
        match chosen.randrange(5):
            case 0:
                made.append(a.to(DEVICE if a.device.type == "cpu" else "cpu"))
            case 1:
                made.append(a.tanh())
            case 2:
                made.append(a * 0.5)
            case 3:
                made.append(a * b.to(a.device))
            case _:
                made.append(a + b.to(a.device))
    return leaves, [each for each in made[-4:] if not each.is_leaf]


for seed in range(int(sys.argv[1])):
    chosen = random.Random(seed)
    leaves, ends = graph(chosen)
    if not ends:
        continue
    if chosen.random() < 0.3:
        torch.autograd.backward([each.sum() for each in ends])
    elif chosen.random() < 0.3:
        wanted = chosen.sample(leaves, 2)
        loss = sum(each.cpu().sum() for each in ends)
        grads = torch.autograd.grad(loss, wanted, allow_unused=True)
        print([None if grad is None else f"{grad.sum().item():.3f}" for grad in grads])
    else:
        sum(each.cpu().sum() for each in ends).backward()
    print([None if each.grad is None else f"{each.grad.sum().item():.3f}" for each in leaves])
end()
