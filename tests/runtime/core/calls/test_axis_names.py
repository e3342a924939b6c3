"""NumPy's names for `dim` and `keepdim` are PyTorch's, too."""

from __future__ import annotations

from typing import Any

from tests.runtime.answers.kept import as_pytorch_answered
from tests.runtime.engines import answer

X = "torch.arange(6.).reshape(2, 3)"
CALLS = [
    *(
        f"{call}({options})"
        for name, options in {
            "aminmax": "axis=1, keepdims=True",
            "argmax": "axis=1, keepdims=True",
            "argmin": "axis=1",
            "argsort": "axis=0, descending=True",
            "count_nonzero": "axis=1",
            "cummax": "axis=1",
            "cumprod": "axis=0",
            "cumsum": "axis=-1, dtype=torch.float64",
            "diff": "axis=1",
            "median": "axis=0, keepdims=True",
            "mode": "axis=1",
            "nanmean": "axis=1",
            "nanmedian": "axis=1",
            "nansum": "axis=1, keepdims=True",
            "sort": "axis=0, descending=True",
            "squeeze": "axis=0",
            "unbind": "axis=1",
            "unsqueeze": "axis=1",
        }.items()
        for call in (f"{X}.{name}", f"(lambda **o: torch.{name}({X}, **o))")
    ),
    *(
        f"({call} * 1e4).round()"
        for name in ("log_softmax", "logcumsumexp", "logsumexp", "softmax")
        for call in (f"{X}.{name}(axis=1)", f"torch.{name}({X}, axis=1)")
    ),
    f"{X}.chunk(2, axis=1)",
    f"{X}.topk(2, axis=1)",
    f"{X}.kthvalue(2, axis=1, keepdims=True)",
    f"{X}.quantile(0.5, axis=1, keepdims=True)",
    f"torch.argmax({X}, 1)",
    f"torch.cumsum({X})",
    f"torch.softmax({X})",
    f"{X}.unsqueeze()",
    f"torch.sort({X}, axis=0, out=(torch.zeros(2, 3), torch.zeros(2, 3).long()))",
]


@as_pytorch_answered({"axis_names": CALLS}, tolerance=100)
def test_a_function_takes_them(torch: Any, call: str) -> Any:
    return answer(torch, call)
