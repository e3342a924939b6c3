"""Every kind of hook: on tensors, nodes, modules, gradients that have been stored, optimizers."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
log = []
model[0].register_forward_pre_hook(lambda module, args: log.append("before"))
model[0].register_forward_hook(lambda module, args, output: output * 1.5)
model[2].register_full_backward_hook(lambda module, gin, gout: log.append(gout[0].sum().item().hex()))
model[2].register_full_backward_pre_hook(lambda module, gout: log.append("pre"))
model[2].weight.register_hook(lambda grad: grad * 0.5)
model[0].bias.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.norm().item().hex()))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_post_hook(lambda opt, args, kwargs: log.append("stepped"))

x, y = torch.randn(12, 5), torch.randn(12, 1)
for _ in range(3):
    out = model(x)
    out.register_hook(lambda grad: log.append("out") or grad.clamp(-0.1, 0.1))
    loss = (out - y).square().mean()
    loss.grad_fn.register_hook(lambda gin, gout: log.append(len(gin)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    log.append(loss.item().hex())
print(*log, sep="\n")
