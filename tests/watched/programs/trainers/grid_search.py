"""skorch: a network within a pipeline of scikit-learn, over a grid, with schedules, clipping and checkpoints."""
# needs: skorch sklearn
# slow

import warnings

warnings.simplefilter("ignore")
import numpy
import torch
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_classification, make_regression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetBinaryClassifier, NeuralNetRegressor
from skorch.callbacks import Callback, Checkpoint, EarlyStopping, EpochScoring, Freezer, GradientNormClipping, LRScheduler
from skorch.dataset import ValidSplit

torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self, width=8, drop=0.0):
        super().__init__()
        self.first, self.rest = torch.nn.Linear(6, width), torch.nn.Sequential(torch.nn.SELU(), torch.nn.AlphaDropout(drop), torch.nn.Linear(width, 1))

    def forward(self, x):
        return self.rest(self.first(x))


class Told(Callback):
    def on_grad_computed(self, net, named_parameters, **_):
        net.norms = [*getattr(net, "norms", []), next(p for _, p in named_parameters if p.grad is not None).grad.norm().item()]

    def on_train_end(self, net, **_):
        print(net.module_.first.out_features, len(net.history), float(net.history[-1, "train_loss"]).hex(), sum(net.norms).hex())


x, y = make_classification(48, 6, random_state=1)
net = NeuralNetBinaryClassifier(Net, max_epochs=2, lr=0.05, verbose=0, callbacks=[Told(), GradientNormClipping(1.0)], iterator_train__shuffle=True, train_split=None, optimizer=torch.optim.Adamax)
pipe = make_pipeline(StandardScaler(), net)
grid = GridSearchCV(pipe, {"neuralnetbinaryclassifier__module__width": [4, 8], "neuralnetbinaryclassifier__lr": [0.01, 0.1]}, cv=2, scoring="accuracy", refit=True)
grid.fit(x.astype(numpy.float32), y.astype(numpy.float32))
print(sorted(grid.best_params_.items()), float(grid.best_score_).hex())
x, y = make_regression(40, 6, random_state=2)
callbacks = [
    Told(), Freezer("first.bias"), LRScheduler(torch.optim.lr_scheduler.OneCycleLR, max_lr=0.05, steps_per_epoch=4, epochs=4, step_every="batch"), EpochScoring("r2", lower_is_better=False),
    EarlyStopping(patience=2), Checkpoint(dirname="kept", monitor="valid_loss_best", load_best=True),
]
net = NeuralNetRegressor(Net, criterion=torch.nn.HuberLoss, max_epochs=4, batch_size=8, lr=0.01, verbose=0, callbacks=callbacks, module__drop=0.1, train_split=ValidSplit(5))
model = TransformedTargetRegressor(net, transformer=StandardScaler())
model.fit(x.astype(numpy.float32), y.astype(numpy.float32).reshape(-1, 1))
print(f"{model.predict(x.astype(numpy.float32)).sum():.3f}")
