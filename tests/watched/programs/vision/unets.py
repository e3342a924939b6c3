"""segmentation_models_pytorch: a U-Net with an encoder of timm, and losses of overlap."""
# needs: segmentation_models_pytorch timm torchvision
# slow

import segmentation_models_pytorch as smp
import torch

torch.manual_seed(0)
x = torch.rand(2, 3, 32, 32)
y = (torch.rand(2, 1, 32, 32) > 0.6).float()
for kind in (smp.Unet, smp.FPN):
    model = kind("tu-resnet10t", encoder_weights=None, classes=1)
    dice, focal = smp.losses.DiceLoss("binary"), smp.losses.FocalLoss("binary")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(2):
        out = model(x)
        loss = dice(out, y) + focal(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(kind.__name__, step, loss.item().hex(), model.segmentation_head[0].weight.grad.norm().item().hex())
    stats = smp.metrics.get_stats(out.detach().sigmoid(), y.long(), mode="binary", threshold=0.5)
    print(smp.metrics.iou_score(*stats, reduction="micro").item().hex())
