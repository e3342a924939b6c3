"""kornia: a rotation found by gradients through a warp; differentiable filters and SSIM."""
# needs: kornia
# slow

import warnings

warnings.simplefilter("ignore")
import kornia
import torch

torch.manual_seed(0)
image = kornia.filters.gaussian_blur2d(torch.rand(1, 1, 24, 24), (5, 5), (1.5, 1.5))
target = kornia.geometry.transform.rotate(image, torch.tensor([12.0]))
angle = torch.nn.Parameter(torch.zeros(1))
optimizer = torch.optim.Adam([angle], lr=2.0)
for step in range(4):
    out = kornia.geometry.transform.rotate(image, angle)
    loss = kornia.losses.ssim_loss(out, target, 5) + kornia.filters.sobel(out - target).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item().hex(), angle.grad.item().hex())
