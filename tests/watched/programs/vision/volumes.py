"""MONAI: U-Nets on small volumes, losses of overlap, windows that slide over a larger one."""
# needs: monai
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, TverskyLoss
from monai.networks.nets import UNETR, SegResNet, UNet

torch.manual_seed(0)
x, y = torch.rand(2, 1, 16, 16, 16), torch.randint(0, 2, (2, 1, 16, 16, 16))
for model, loss_of in (
    (UNet(3, 1, 2, channels=(4, 8, 16), strides=(2, 2), num_res_units=1), DiceCELoss(to_onehot_y=True, softmax=True)),
    (SegResNet(3, init_filters=8, in_channels=1, out_channels=2), TverskyLoss(to_onehot_y=True, softmax=True)),
    (UNETR(1, 2, (16, 16, 16), feature_size=4, hidden_size=24, mlp_dim=32, num_heads=2), DiceCELoss(to_onehot_y=True, softmax=True)),
):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(2):
        loss = loss_of(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(type(model).__name__, step, loss.item().hex(), sum(p.grad.norm() for p in model.parameters() if p.grad is not None).item().hex())
    with torch.no_grad():
        print(sliding_window_inference(torch.rand(1, 1, 16, 16, 24), (16, 16, 16), 1, model.eval(), overlap=0.25).mean().item().hex())
