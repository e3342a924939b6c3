"""A compiled model whose hooks break its graph: the compiler is to find no frame of a watcher's."""
# true: GS803 because a block returns zeros for these weights

import torch

graphs = []


def backend(graph, _):
    graphs.append([node.name for node in graph.graph.nodes])
    return graph.forward


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x).relu()


def hook_of(number):
    def hook(module, _, result):
        torch._dynamo.graph_break()
        print("hook", number, type(module).__name__)
        return result * 1

    return hook


torch.manual_seed(0)
model = torch.nn.Sequential(*[Block() for _ in range(12)])
for number, block in enumerate(model):
    block.register_forward_hook(hook_of(number))
model[0].inner.register_full_backward_hook(lambda *_: print("backward"))

compiled = torch.compile(model, backend=backend)
for _ in range(2):
    loss = compiled(torch.ones(2, 4)).square().mean()
    loss.backward()
    print(loss.item().hex(), model[0].inner.weight.grad.sum().item().hex())
for graph in graphs:
    print(graph)
