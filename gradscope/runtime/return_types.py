"""`torch.return_types`: the tuples that operations with several results return."""

from __future__ import annotations

from gradscope.runtime.core.calls import return_types

globals().update({name: value for name, value in vars(return_types).items() if name[0] != "_"})
