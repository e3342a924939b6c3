"""torchmetrics while training: a collection, a metric that is differentiated, states that are reset."""
# needs: torchmetrics
# slow

import torch
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassConfusionMatrix, MulticlassF1Score
from torchmetrics.regression import PearsonCorrCoef

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
metrics = MetricCollection({"accuracy": MulticlassAccuracy(3), "f1": MulticlassF1Score(3), "matrix": MulticlassConfusionMatrix(3)})
mean = MeanMetric()
x, y = torch.randn(32, 5), torch.randint(0, 3, (32,))
for step in range(4):
    logits = model(x)
    loss = torch.nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metrics.update(logits.detach(), y)
    mean.update(loss.detach())
    print(step, loss.item().hex(), model[0].weight.grad.norm().item().hex())
print({name: each.tolist() for name, each in metrics.compute().items()}, mean.compute().item().hex())
metrics.reset()
w = torch.randn(32, requires_grad=True)
PearsonCorrCoef()(w, x[:, 0]).backward()
print(w.grad.norm().item().hex())
