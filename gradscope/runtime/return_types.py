"""`torch.return_types`: named tuples of operations with several results."""

from __future__ import annotations

from gradscope.runtime.core.calls import return_types

globals().update({name: value for name, value in vars(return_types).items() if name[0] != "_"})
