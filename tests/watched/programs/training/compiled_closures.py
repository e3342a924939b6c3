"""Compiled modules with hooks that refer to variables of functions, in graphs that must not break."""

# A placeholder has the name of the attributes that lead to its value, which are others for a watched hook.
import torch

graphs = []


def backend(graph, _):
    graphs.append([node.op for node in graph.graph.nodes])
    return graph.forward


def scaled(factor):
    return lambda module, given: (given[0] * factor,)


def shifted(by):
    return lambda module, given, result: result + by


torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 2))
model[0].register_forward_pre_hook(scaled(0.5))
model[1].register_forward_hook(shifted(torch.ones(2)))
compiled = torch.compile(model, backend=backend, fullgraph=True)
for _ in range(2):
    loss = compiled(torch.ones(2, 4)).square().mean()
    loss.backward()
    print(loss.item().hex(), model[0].weight.grad.sum().item().hex())
print(graphs)
