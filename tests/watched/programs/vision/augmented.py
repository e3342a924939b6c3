"""kornia: images and their masks are augmented in step, losses for segments, edges found in between."""
# needs: kornia
# slow

import warnings

warnings.simplefilter("ignore")
import kornia
import kornia.augmentation as K
import torch
from kornia.losses import DiceLoss, FocalLoss, SSIMLoss, TverskyLoss

torch.manual_seed(0)
augment = K.AugmentationSequential(
    K.RandomHorizontalFlip(p=0.5), K.RandomAffine(15, translate=(0.1, 0.1), p=1.0), K.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0), K.RandomErasing(p=0.3), data_keys=["input", "mask"], same_on_batch=False
)


class Segments(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.down = torch.nn.Conv2d(5, 6, 3, stride=2, padding=1)
        self.norm = torch.nn.GroupNorm(2, 6)
        self.up = torch.nn.ConvTranspose2d(6, 3, 2, stride=2)

    def forward(self, x):
        edges = kornia.filters.spatial_gradient(kornia.color.rgb_to_grayscale(x))[:, 0]
        return self.up(torch.relu(self.norm(self.down(torch.cat([x, edges], 1)))))


model = Segments()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
images = torch.rand(4, 3, 12, 12)
masks = (kornia.filters.gaussian_blur2d(images, (3, 3), (1.0, 1.0)).argmax(1, keepdim=True)).float()
losses = [DiceLoss(), FocalLoss(alpha=0.5, reduction="mean"), TverskyLoss(alpha=0.4, beta=0.6)]
for step in range(3):
    x, y = augment(images, masks)
    out = model(x)
    loss = losses[step](out, y[:, 0].round().long().clamp(0, 2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(type(losses[step]).__name__, loss.item().hex(), model.down.weight.grad.norm().item().hex())
angle = torch.tensor([5.0, -5.0, 10.0, 0.0], requires_grad=True)
turned = kornia.geometry.transform.rotate(kornia.enhance.adjust_gamma(images, 1.2), angle)
loss = SSIMLoss(5)(turned, images) + 0.1 * kornia.filters.sobel(turned).mean() + kornia.losses.charbonnier_loss(kornia.color.rgb_to_lab(turned), kornia.color.rgb_to_lab(images), reduction="mean")
loss.backward()
print(loss.item().hex(), angle.grad.norm().item().hex())
