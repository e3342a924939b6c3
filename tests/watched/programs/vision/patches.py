"""einops: an MLP-Mixer whose tensors are all cut, turned and joined by its layers."""
# needs: einops

import torch
from einops import einsum, pack, parse_shape, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

torch.manual_seed(0)


class Mixed(torch.nn.Module):
    def __init__(self, dim, patches):
        super().__init__()
        self.norms = torch.nn.ModuleList([torch.nn.LayerNorm(dim) for _ in range(2)])
        self.tokens = EinMix("b p c -> b q c", weight_shape="p q", bias_shape="q", p=patches, q=patches)
        self.channels = torch.nn.Sequential(
            EinMix("b p c -> b p d", weight_shape="c d", bias_shape="d", c=dim, d=2 * dim), torch.nn.GELU(),
            EinMix("b p d -> b p c", weight_shape="d c", bias_shape="c", c=dim, d=2 * dim),
        )

    def forward(self, x):
        x = x + self.tokens(self.norms[0](x))
        return x + self.channels(self.norms[1](x))


model = torch.nn.Sequential(
    Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4), torch.nn.Linear(48, 12), Mixed(12, 4), Mixed(12, 4), Reduce("b p c -> b c", "mean"), torch.nn.Linear(12, 5)
)
optimizer = torch.optim.NAdam(model.parameters(), lr=1e-2)
x, y = torch.rand(6, 3, 8, 8), torch.randint(0, 5, (6,))
for step in range(3):
    loss = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), model[2].tokens.weight.grad.norm().item().hex())
query = torch.randn(2, 5, 8, requires_grad=True)
cls = torch.randn(8, requires_grad=True)
joined, shapes = pack([repeat(cls, "c -> b c", b=2), query], "b * c")
scores = einsum(joined, joined, "b i c, b j c -> b i j").softmax(-1)
head, rest = unpack(einsum(scores, joined, "b i j, b j c -> b i c"), shapes, "b * c")
reduce(rest, "b t c -> b", "max").sum().add(head.sum()).backward()
print(parse_shape(rest, "batch _ channels"), query.grad.norm().item().hex(), cls.grad.norm().item().hex())
