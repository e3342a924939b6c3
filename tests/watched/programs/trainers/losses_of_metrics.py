"""torchmetrics: similarity of images and sound as the loss itself, wrapped metrics beside it, and one of its own."""
# needs: torchmetrics
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from torchmetrics import CatMetric, MeanMetric, Metric, MetricTracker, MinMaxMetric, PearsonCorrCoef, R2Score
from torchmetrics.audio import ScaleInvariantSignalDistortionRatio
from torchmetrics.functional.classification import multiclass_hinge_loss
from torchmetrics.functional.image import structural_similarity_index_measure, total_variation
from torchmetrics.wrappers import BootStrapper, MultioutputWrapper

torch.manual_seed(0)


class Worst(Metric):
    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("worst", torch.tensor(0.0), dist_reduce_fx="max")

    def update(self, predicted, target):
        self.worst = torch.maximum(self.worst, (predicted - target).abs().max())

    def compute(self):
        return self.worst


clean = torch.rand(2, 1, 16, 16)
model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.PReLU(), torch.nn.Conv2d(4, 1, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
tracker = MetricTracker(MinMaxMetric(MeanMetric()), maximize=False)
for step in range(3):
    tracker.increment()
    out = model(clean + 0.1 * torch.randn_like(clean)).sigmoid()
    loss = 1 - structural_similarity_index_measure(out, clean, data_range=1.0, kernel_size=5) + 1e-4 * total_variation(out)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    tracker.update(loss.detach())
    print("image", step, loss.item().hex(), model[0].weight.grad.norm().item().hex(), {key: value.item().hex() for key, value in tracker.compute().items()})
sound, ratio = torch.randn(3, 64), ScaleInvariantSignalDistortionRatio()
separate = torch.nn.Conv1d(1, 1, 5, padding=2)
optimizer = torch.optim.SGD(separate.parameters(), lr=1e-2)
for step in range(2):
    optimizer.zero_grad()
    loss = -ratio(separate(sound[:, None])[:, 0], sound)
    loss.backward()
    optimizer.step()
    print("sound", step, loss.item().hex(), separate.weight.grad.norm().item().hex())
head = torch.nn.Linear(64, 4)
worst, outputs, boot, seen = Worst(), MultioutputWrapper(R2Score(), 4), BootStrapper(PearsonCorrCoef(), num_bootstraps=3), CatMetric()
target = torch.randn(3, 4)
for step in range(2):
    head.zero_grad()
    out = head(sound)
    loss = multiclass_hinge_loss(out.softmax(1), torch.tensor([0, 3, 1]), num_classes=4) + worst(out, target)
    loss.backward()
    outputs.update(out.detach(), target)
    boot.update(out.detach().flatten(), target.flatten())
    seen.update(loss.detach())
    print("hinge", step, loss.item().hex(), head.weight.grad.norm().item().hex(), worst.compute().item().hex())
print(*(value.hex() for value in outputs.compute().tolist()), boot.compute()["mean"].item().hex(), seen.compute().shape)
