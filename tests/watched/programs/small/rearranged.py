"""einops: rearrange, reduce, repeat, einsum and pack in a small attention, and its layers."""
# needs: einops

import torch
from einops import einsum, pack, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)
to_qkv = torch.nn.Linear(8, 24, bias=False)
head = torch.nn.Sequential(Rearrange("b (h w) c -> b c h w", h=3), torch.nn.Conv2d(8, 6, 2), Reduce("b c h w -> b c", "mean"), EinMix("b c -> b o", weight_shape="c o", bias_shape="o", c=6, o=2))
optimizer = torch.optim.Adam([*to_qkv.parameters(), *head.parameters()], lr=1e-2)
x, y = torch.randn(4, 9, 8), torch.randn(4, 2)
for step in range(3):
    q, k, v = rearrange(to_qkv(x), "b n (three h d) -> three b h n d", three=3, h=2)
    scores = einsum(q, k, "b h i d, b h j d -> b h i j").softmax(-1)
    out = rearrange(einsum(scores, v, "b h i j, b h j d -> b h i d"), "b h n d -> b n (h d)")
    packed, shapes = pack([out, repeat(reduce(out, "b n c -> b c", "mean"), "b c -> b n c", n=9)], "b * c")
    first, second = unpack(packed, shapes, "b * c")
    loss = (head(first + second) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), to_qkv.weight.grad.norm().item().hex())
