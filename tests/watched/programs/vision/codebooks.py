"""vector_quantize_pytorch: a small autoencoder whose code comes from codebooks, by gradients put straight through."""
# needs: vector_quantize_pytorch
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from vector_quantize_pytorch import FSQ, LFQ, ResidualVQ, VectorQuantize

torch.manual_seed(0)
x = torch.randn(4, 6, 8)
for quantize in (
    VectorQuantize(dim=8, codebook_size=16, kmeans_init=True, kmeans_iters=3), VectorQuantize(dim=8, codebook_size=16, rotation_trick=True, learnable_codebook=True, ema_update=False),
    ResidualVQ(dim=8, num_quantizers=2, codebook_size=8, quantize_dropout=True), LFQ(codebook_size=16, dim=8, entropy_loss_weight=0.1), FSQ([4, 3, 3], dim=8),
):
    code, back = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    optimizer = torch.optim.Adam([*code.parameters(), *quantize.parameters(), *back.parameters()], lr=1e-2)
    for step in range(2):
        chosen, _, *aside = quantize(code(x))
        loss = (back(chosen) - x).square().mean() + sum(each.sum() for each in aside)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(type(quantize).__name__, step, loss.item().hex(), code.weight.grad.norm().item().hex())
