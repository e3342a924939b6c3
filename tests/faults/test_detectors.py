"""The detectors notice nothing where nothing is wrong: on gradscope's engine, and on PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import gradscope.runtime
from tests.faults.detectors import DETECTORS, RECORDINGS


@pytest.fixture(params=["gradscope", pytest.param("torch", marks=pytest.mark.torch)])
def torch(request: pytest.FixtureRequest) -> Any:
    if request.param == "gradscope":
        return gradscope.runtime
    import torch

    return torch


@pytest.mark.filterwarnings("ignore:Using backward")
@pytest.mark.parametrize("name", DETECTORS)
def test_nothing_is_noticed_where_nothing_is_wrong(torch: Any, name: str) -> None:
    DETECTORS[name](torch)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", RECORDINGS)
def test_nothing_is_noticed_in_a_recording(name: str) -> None:
    RECORDINGS[name]()
    assert gradscope.runtime.is_grad_enabled()
