"""Every test here runs on gradscope's engine and on PyTorch's: what it expects holds for both."""

from __future__ import annotations

from typing import Any

import pytest

from tests.runtime.both import runtime


@pytest.fixture(params=["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def torch(request: pytest.FixtureRequest) -> Any:
    """The module a program would have imported as `torch`."""
    if request.param == "gradscope":
        return runtime()
    import torch as real

    return real
