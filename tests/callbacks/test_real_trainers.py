"""The callback with the trainers it is for, where they are installed: CI has neither."""

from __future__ import annotations

import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import gradscope
from gradscope.callbacks import GradscopeCallback
from gradscope.trace.schema import Span, Step
from gradscope.trace.schema.tables import Phase
from gradscope.trace.trace import Trace

BATCHES, STEPS = 8, "2:4"


def numbers(trace: Trace) -> list[int]:
    """The steps in which an optimizer made its step."""
    steps = {row.id: row.number for row in trace.rows(Step)}
    return sorted({steps[row.step] for row in trace.rows(Span) if row.phase == Phase.OPTIMIZER})


@pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize("accumulated", [1, 2])
def test_transformers_trainer_is_recorded_at_these_steps(tmp_path: Path, accumulated: int) -> None:
    import torch
    from transformers import Trainer, TrainingArguments

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 1)

        def forward(self, x: Any, labels: Any) -> Any:
            return {"loss": ((self.linear(x).squeeze(1) - labels) ** 2).mean()}

    data = [{"x": torch.rand(4), "labels": torch.rand(())} for _ in range(2 * BATCHES)]
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "out"), max_steps=BATCHES, per_device_train_batch_size=1,
        gradient_accumulation_steps=accumulated, report_to=[], use_cpu=True, save_strategy="no",
    )  # fmt: skip
    callback = GradscopeCallback(steps=STEPS, out=tmp_path / "trace.json")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Trainer(Net(), arguments, train_dataset=data, callbacks=[callback]).train()

    trace = gradscope.load(tmp_path / "trace.json")
    assert trace.meta["producer"] == "pytorch"
    assert numbers(trace) == [2, 3, 4]
    assert gradscope.inspect(trace).summary.backwards == 3 * accumulated


@pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed")
@pytest.mark.parametrize("accumulated", [1, 2])
def test_lightning_is_recorded_at_these_steps(tmp_path: Path, accumulated: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import lightning
        import torch

        class Net(lightning.LightningModule):
            def __init__(self) -> None:
                super().__init__()
                self.linear = torch.nn.Linear(4, 1)

            def training_step(self, batch: Any, index: int) -> Any:
                return self.linear(batch).pow(2).mean()

            validation_step = training_step

            def configure_optimizers(self) -> Any:
                return torch.optim.SGD(self.parameters(), lr=0.1)

        callback = GradscopeCallback(steps=STEPS, out=tmp_path / "trace.json")
        trainer = lightning.Trainer(
            max_steps=BATCHES, callbacks=[callback], accelerator="cpu", logger=False,
            accumulate_grad_batches=accumulated, enable_progress_bar=False,
            default_root_dir=tmp_path,
        )  # fmt: skip
        loader = torch.utils.data.DataLoader(torch.rand(64, 4), batch_size=2)
        trainer.fit(Net(), loader, loader)

    trace = gradscope.load(tmp_path / "trace.json")
    assert trace.meta["producer"] == "pytorch"
    assert numbers(trace) == [2, 3, 4]
    assert gradscope.inspect(trace).summary.backwards == 3 * accumulated
