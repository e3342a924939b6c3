"""torchvision: DeepLabV3 with its auxiliary head, pixels that do not count, and two rates."""
# needs: torchvision
# slow

import torch
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large
from torchvision.transforms import v2

torch.manual_seed(0)
model = deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4, aux_loss=True)
optimizer = torch.optim.SGD(
    [{"params": model.backbone.parameters(), "lr": 1e-3}, {"params": [*model.classifier.parameters(), *model.aux_classifier.parameters()], "lr": 1e-2}],
    momentum=0.9, weight_decay=1e-4,
)
rates = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=0.9)
change = v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(0.2), v2.Normalize([0.5] * 3, [0.25] * 3)])
images, masks = torch.rand(2, 3, 48, 48), torch.randint(0, 4, (2, 48, 48))
masks[:, :4] = 255
for step in range(2):
    out = model(change(images))
    count = torch.nn.functional.cross_entropy(out["out"], masks, ignore_index=255)
    aside = torch.nn.functional.cross_entropy(out["aux"], masks, ignore_index=255)
    optimizer.zero_grad()
    (count + 0.5 * aside).backward()
    optimizer.step()
    rates.step()
    print(step, count.item().hex(), aside.item().hex(), model.classifier[4].weight.grad.norm().item().hex())
