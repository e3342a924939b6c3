"""A skorch classifier inside scikit-learn's pipeline and cross-validation."""
# needs: skorch sklearn
# slow

import numpy as np
import torch
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier


class Net(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))

    def forward(self, x):
        return self.body(x)


torch.manual_seed(0)
random = np.random.default_rng(0)
x = random.normal(size=(48, 4)).astype(np.float32)
y = (x.sum(1) > 0).astype(np.int64)
net = NeuralNetClassifier(Net, max_epochs=3, lr=0.1, criterion=torch.nn.CrossEntropyLoss, train_split=None, verbose=0, module__width=6)
pipeline = make_pipeline(StandardScaler(), net)
pipeline.fit(x, y)
print(*(each.hex() for each in net.history[:, "train_loss"]), pipeline.score(x, y))
print(net.module_.body[0].weight.grad.norm().item().hex())
print(cross_val_score(pipeline, x, y, cv=2).tolist())
