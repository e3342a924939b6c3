"""torchvision: RetinaNet with a feature pyramid and frozen batch norm; its focal loss."""
# needs: torchvision
# slow

import torch
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

torch.manual_seed(0)
backbone = resnet_fpn_backbone(backbone_name="resnet18", weights=None, trainable_layers=2, returned_layers=[3, 4])
anchors = AnchorGenerator(((8,), (16,), (32,)), ((1.0, 2.0),) * 3)
model = RetinaNet(backbone, num_classes=3, anchor_generator=anchors, min_size=64, max_size=64)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
images = [torch.rand(3, 64, 64), torch.rand(3, 48, 64)]
targets = [{"boxes": torch.tensor([[8.0, 8.0, 32.0, 40.0]]), "labels": torch.tensor([label])} for label in (1, 2)]
for step in range(2):
    losses = model(images, targets)
    optimizer.zero_grad()
    sum(losses.values()).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    print(step, {name: loss.item().hex() for name, loss in losses.items()}, norm.item().hex())
