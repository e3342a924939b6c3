"""torchvision: Faster R-CNN with a small backbone, from images of two sizes, then its detections."""
# needs: torchvision
# slow

import torch
import torchvision
from torchvision.models.detection import FasterRCNN
from torchvision.models.detection.rpn import AnchorGenerator

torch.manual_seed(0)
backbone = torchvision.models.mobilenet_v2(weights=None).features[:7]
backbone.out_channels = 32
model = FasterRCNN(
    backbone, num_classes=3, min_size=48, max_size=64, rpn_anchor_generator=AnchorGenerator(((8, 16, 32),), ((0.5, 1.0, 2.0),)),
    box_roi_pool=torchvision.ops.MultiScaleRoIAlign(["0"], output_size=3, sampling_ratio=2), rpn_pre_nms_top_n_train=50, rpn_post_nms_top_n_train=20,
    box_batch_size_per_image=16, box_detections_per_img=5,
)
optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9)
images = [torch.rand(3, 40, 48), torch.rand(3, 48, 56)]
targets = [
    {"boxes": torch.tensor([[4.0, 4.0, 20.0, 24.0], [16.0, 8.0, 44.0, 36.0]]), "labels": torch.tensor([1, 2])},
    {"boxes": torch.tensor([[10.0, 12.0, 40.0, 44.0]]), "labels": torch.tensor([2])},
]
for step in range(2):
    losses = model(images, targets)
    optimizer.zero_grad()
    sum(losses.values()).backward()
    optimizer.step()
    print(step, {name: loss.item().hex() for name, loss in losses.items()})
    print(model.rpn.head.cls_logits.weight.grad.norm().item().hex())
with torch.no_grad():
    print([found["boxes"].shape for found in model.eval()(images)])
