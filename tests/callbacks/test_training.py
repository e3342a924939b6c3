"""The callback with stubs of the interfaces that transformers and Lightning document."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import gradscope
import gradscope.runtime
from gradscope.callbacks import GradscopeCallback
from gradscope.errors import UsageError
from gradscope.record.process.claim import current
from tests.callbacks.test_real_trainers import numbers

STEPS = 8
ENGINES = pytest.mark.parametrize(
    "engine", ["gradscope", pytest.param("torch", marks=pytest.mark.torch)]
)


class Training:
    """A model that learns, and at which steps it was recorded."""

    def __init__(self, engine: str) -> None:
        if engine == "torch":
            import torch
        else:
            torch = gradscope.runtime
        self.net = torch.nn.Linear(2, 1)
        self.batch = torch.ones(3, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.watched: list[int] = []

    def step(self, number: int) -> None:
        if current() is not None:
            self.watched.append(number)
        self.optimizer.zero_grad()
        self.net(self.batch).mean().backward()
        self.optimizer.step()


def plain(training: Training, callback: GradscopeCallback) -> None:
    with callback:
        for number in range(STEPS):
            callback.step()
            training.step(number)


def transformers(training: Training, callback: Any) -> None:
    """As `CallbackHandler.call_event` does: args, state, control, and a dict of all else."""
    args, state, control = SimpleNamespace(), SimpleNamespace(global_step=0), SimpleNamespace()

    def tell(event: str) -> None:
        assert getattr(callback, event)(args, state, control, model=training.net) is None

    for event in ("on_init_end", "on_train_begin", "on_epoch_begin"):
        tell(event)
    for number in range(STEPS):
        tell("on_step_begin")
        training.step(number)
        for event in ("on_pre_optimizer_step", "on_optimizer_step"):
            tell(event)
        state.global_step += 1
        for event in ("on_step_end", "on_log", "on_evaluate", "on_save"):
            tell(event)
    for event in ("on_epoch_end", "on_train_end"):
        tell(event)


def lightning(training: Training, callback: Any) -> None:
    """As `Trainer._call_callback_hooks` does: trainer, module, and what the hook is about."""
    trainer, module = SimpleNamespace(global_step=0), training.net
    assert callback.state_dict() == {}
    assert isinstance(callback.state_key, str)
    callback.setup(trainer, module, stage="fit")
    for event in (
        "on_fit_start",
        "on_sanity_check_start",
        "on_train_start",
        "on_train_epoch_start",
    ):
        getattr(callback, event)(trainer, module)
    for number in range(STEPS):
        callback.on_train_batch_start(trainer, module, training.batch, number)
        callback.on_before_zero_grad(trainer, module, training.optimizer)
        callback.on_after_backward(trainer, module)
        training.step(number)
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, module, None, training.batch, number)
    callback.on_train_end(trainer, module)
    callback.teardown(trainer, module, stage="fit")


@ENGINES
@pytest.mark.parametrize("run", [plain, transformers, lightning])
def test_only_the_chosen_steps_are_watched_and_keep_their_numbers(
    run: Callable[[Training, GradscopeCallback], None],
    engine: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    training = Training(engine)

    run(training, GradscopeCallback("2:4", tmp_path / "t.json", level="values", on=engine))

    trace = gradscope.load(tmp_path / "t.json")
    assert training.watched == numbers(trace) == [2, 3, 4]
    assert "unwanted" not in trace.meta
    assert (trace.meta["level"], trace.meta["exit"], trace.truncated) == ("values", "ok", False)
    said = f"gradscope: steps 2 to 4 are in {tmp_path / 't.json'}; next: gradscope inspect "
    assert capsys.readouterr().err.startswith(said)


def test_without_steps_all_are_recorded_and_an_error_is_noted(tmp_path: Path) -> None:
    training, path = Training("gradscope"), tmp_path / "t.json"

    with (
        pytest.raises(ValueError, match="no data"),
        GradscopeCallback(out=path, on="gradscope", quiet=True) as callback,
    ):
        for number in range(2):
            callback.step(10 + number)
            training.step(number)
        raise ValueError("no data")

    trace = gradscope.load(path)
    assert numbers(trace) == [10, 11]
    assert trace.meta["exit"] == "ValueError: no data"


def test_an_exception_that_lightning_tells_of_ends_the_recording(tmp_path: Path) -> None:
    trainer, callback = (
        SimpleNamespace(global_step=0),
        GradscopeCallback(out=tmp_path / "t.json", on="gradscope", quiet=True),
    )

    callback.on_train_batch_start(trainer, None, None, 0)
    callback.on_exception(trainer, None, KeyboardInterrupt())
    callback.teardown(trainer, None, "fit")

    assert gradscope.load(tmp_path / "t.json").meta["exit"] == "KeyboardInterrupt"


def test_what_goes_wrong_with_the_recording_is_said_once_and_the_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("not to be overwritten", encoding="utf-8")
    training = Training("gradscope")

    plain(training, GradscopeCallback(out=tmp_path / "notes.txt", on="gradscope"))
    first = capsys.readouterr().err
    with gradscope.record(on="gradscope"):
        plain(training, GradscopeCallback(out=tmp_path / "t.json", on="gradscope"))
    second = capsys.readouterr().err

    assert first.startswith("gradscope: not recording: ")
    assert "exists and is not a trace" in first
    assert "another recording is active" in second
    assert (first.count("\n"), second.count("\n")) == (1, 1)


def test_a_fault_of_ours_is_said_and_the_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    callback = GradscopeCallback(out=tmp_path / "t.json", on="gradscope")
    monkeypatch.setattr(callback, "_record", lambda number: 1 // 0)

    plain(Training("gradscope"), callback)

    assert "not recording: a fault in gradscope: ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize("options", [{"steps": "4:2"}, {"steps": "all"}, {"level": "deep"}])
def test_what_makes_no_sense_is_refused_before_the_training(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        GradscopeCallback(**options)


def test_neither_trainer_nor_engine_is_imported() -> None:
    program = (
        "from gradscope.callbacks import GradscopeCallback\n"
        "GradscopeCallback(steps='3:7')\n"
        "import sys\n"
        "heavy = {'torch', 'transformers', 'lightning', 'numba', 'gradscope.runtime', 'pytest'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert (ran.stdout, ran.stderr) == ("[]\n", "")
