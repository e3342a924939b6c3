"""pytorch-metric-learning: miners pick the hard pairs, losses pull classes apart, a memory of earlier batches."""
# needs: pytorch_metric_learning
# slow

import warnings

warnings.simplefilter("ignore")
import torch
from pytorch_metric_learning import distances, losses, miners, reducers, regularizers

torch.manual_seed(0)
trunk = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(16, 6))
images, labels = torch.randn(12, 1, 7, 7), torch.arange(12) % 4
cases = {
    "triplet": (losses.TripletMarginLoss(margin=0.3, distance=distances.CosineSimilarity(), reducer=reducers.ThresholdReducer(low=0)), miners.TripletMarginMiner(margin=0.3, type_of_triplets="semihard", distance=distances.CosineSimilarity())),
    "arcface": (losses.ArcFaceLoss(4, 6, margin=20, scale=16, weight_regularizer=regularizers.RegularFaceRegularizer()), None),
    "ntxent": (losses.NTXentLoss(temperature=0.2, embedding_regularizer=regularizers.LpRegularizer()), None),
    "similarity": (losses.MultiSimilarityLoss(), miners.MultiSimilarityMiner(epsilon=0.2)),
    "memory": (losses.CrossBatchMemory(losses.ContrastiveLoss(pos_margin=0, neg_margin=1), 6, memory_size=24), None),
}
for name, (loss_of, miner) in cases.items():
    own = list(loss_of.parameters())
    optimizers = [torch.optim.Adam(trunk.parameters(), lr=1e-3)] + ([torch.optim.SGD(own, lr=1e-2)] if own else [])
    for step in range(2):
        out = trunk(images)
        loss = loss_of(out, labels, miner(out, labels)) if miner else loss_of(out, labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        print(name, step, loss.item().hex(), trunk[0].weight.grad.norm().item().hex())
