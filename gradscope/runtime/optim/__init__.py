"""Optimizers: what turns gradients into steps."""

from __future__ import annotations

from typing import Any

from gradscope.runtime import missing
from gradscope.runtime.optim import lr_scheduler as lr_scheduler
from gradscope.runtime.optim.adam import Adam as Adam, AdamW as AdamW
from gradscope.runtime.optim.optimizer import Optimizer as Optimizer
from gradscope.runtime.optim.rmsprop import Adagrad as Adagrad, RMSprop as RMSprop
from gradscope.runtime.optim.sgd import SGD as SGD


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.optim", name, list(globals()))
