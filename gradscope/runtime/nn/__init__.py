"""`torch.nn`: modules, parameters and the functions that modules call."""

from __future__ import annotations

from typing import Any

from gradscope.runtime.core.errors import missing
from gradscope.runtime.nn import (
    attention as attention,
    functional as functional,
    init as init,
    modules as modules,
    parallel as parallel,
    parameter as parameter,
    utils as utils,
)
from gradscope.runtime.nn.modules import *  # noqa: F403 -- every module there is
from gradscope.runtime.nn.modules import utils as _  # noqa: F401 -- named `nn.modules.utils`
from gradscope.runtime.nn.parallel import DataParallel as DataParallel
from gradscope.runtime.nn.parameter import (
    Buffer as Buffer,
    Parameter as Parameter,
    UninitializedBuffer as UninitializedBuffer,
    UninitializedParameter as UninitializedParameter,
)


def __getattr__(name: str) -> Any:
    raise missing.no_module_attribute("torch.nn", name, list(globals()))
