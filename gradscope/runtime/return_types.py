"""What operations with several results return: tuples whose fields have names."""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _made(name: str, *fields: str) -> Any:
    """A result type of this name, written as PyTorch writes its own."""

    def shown(self: Any) -> str:
        inner = ",\n".join(f"{field}={getattr(self, field)!r}" for field in fields)
        return f"torch.return_types.{name}(\n{inner})"

    body = {"__slots__": (), "__repr__": shown, "__module__": "torch.return_types"}
    return type(name, (namedtuple(name, fields),), body)


sort = _made("sort", "values", "indices")
topk = _made("topk", "values", "indices")
kthvalue = _made("kthvalue", "values", "indices")
median = _made("median", "values", "indices")
nanmedian = _made("nanmedian", "values", "indices")
mode = _made("mode", "values", "indices")
max = _made("max", "values", "indices")
min = _made("min", "values", "indices")
cummax = _made("cummax", "values", "indices")
cummin = _made("cummin", "values", "indices")
aminmax = _made("aminmax", "min", "max")
slogdet = _made("slogdet", "sign", "logabsdet")
histogram = _made("histogram", "hist", "bin_edges")
histogramdd = _made("histogramdd", "hist", "bin_edges")
frexp = _made("frexp", "mantissa", "exponent")
