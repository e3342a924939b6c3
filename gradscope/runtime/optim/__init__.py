"""`torch.optim`: optimizers, which update parameters by their gradients."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.optim import lr_scheduler as lr_scheduler
from gradscope.runtime.optim.adadelta import Adadelta as Adadelta
from gradscope.runtime.optim.adafactor import Adafactor as Adafactor
from gradscope.runtime.optim.adagrad import Adagrad as Adagrad
from gradscope.runtime.optim.adam import Adam as Adam
from gradscope.runtime.optim.adamax import Adamax as Adamax
from gradscope.runtime.optim.adamw import AdamW as AdamW
from gradscope.runtime.optim.asgd import ASGD as ASGD
from gradscope.runtime.optim.lbfgs import LBFGS as LBFGS
from gradscope.runtime.optim.muon import Muon as Muon
from gradscope.runtime.optim.nadam import NAdam as NAdam
from gradscope.runtime.optim.optimizer import Optimizer as Optimizer
from gradscope.runtime.optim.radam import RAdam as RAdam
from gradscope.runtime.optim.rmsprop import RMSprop as RMSprop
from gradscope.runtime.optim.rprop import Rprop as Rprop
from gradscope.runtime.optim.sgd import SGD as SGD
from gradscope.runtime.optim.sparse_adam import SparseAdam as SparseAdam

LATE = ("swa_utils",)


def __getattr__(name: str) -> Any:
    if name in LATE:
        return import_module(f"{__name__}.{name}")
    raise missing.no_module_attribute("torch.optim", name, [*globals(), *LATE])
