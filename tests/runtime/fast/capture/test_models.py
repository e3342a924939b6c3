"""A compiled model leaves the same bits in a loop that runs as ever."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradscope.runtime as torch
from gradscope.record.recorder import record
from gradscope.runtime.fast.capture.models.optimized_module import OptimizedModule
from gradscope.trace.schema import Lack, Missed
from tests.runtime.fast.capture.steps import LAYERS, LOSSES, WRAPPERS, batch
from tests.runtime.fast.capture.test_replayed_steps import bits, left

nn, F = torch.nn, torch.nn.functional
CALLS = 8


def model_of(layer: str) -> Any:
    scope: dict[str, Any] = {"torch": torch, "nn": nn, "F": F, "__name__": "program"}
    exec(compile(WRAPPERS, "wrappers", "exec"), scope)
    torch.manual_seed(3)
    return eval(LAYERS[layer], scope)


def trained(
    model: Any, called: Any, loss_of: Callable[[Any], Any], calls: int = CALLS
) -> list[Any]:
    """What a loop around a model leaves; every third step gathers gradients of two."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(7)
    found = []
    for nr in range(CALLS):
        if nr % 3:
            optimizer.zero_grad()
        made = called(batch(torch, nr))
        loss = loss_of(made)
        loss.backward()
        optimizer.step()
        found.append((made.detach()._array.tobytes(), loss.item(), left(model)))
    return [*found, torch.rand(1).item()]


def compared(layer: str, loss: str) -> str:
    """How a compiled model differs, or why it is not replayed."""
    text = LOSSES[loss]

    def loss_of(made: Any) -> Any:
        return eval(text, {"made": made, "torch": torch, "F": F})

    eager, model = model_of(layer), model_of(layer)
    run = torch.compile(model)
    expected, found = trained(eager, eager, loss_of), trained(model, run, loss_of)
    plans = run.capture.plans
    if not plans or plans[0].replays < CALLS - 2:
        return f"not replayed: {run.report()}"
    return "" if found == expected else "other numbers"


def test_each_layer_leaves_the_same_bits() -> None:
    np.seterr(all="ignore")
    losses = list(LOSSES)
    pairs = {layer: losses[nr % len(losses)] for nr, layer in enumerate(LAYERS)}
    differing = {
        layer: reason for layer, loss in pairs.items() if (reason := compared(layer, loss))
    }

    assert differing == {}


def replayed(model: Any, *given: Any, calls: int = 4) -> OptimizedModule:
    """A compiled model that is replayed with such arguments."""
    run = torch.compile(model)
    for _ in range(calls):
        run(*given)
    assert run.capture.plans, run.report()
    assert run.capture.plans[0].replays > 0
    return run  # type: ignore[no-any-return]


X = torch.linspace(-1, 1, 24).view(4, 6)


def test_it_is_a_module_with_the_model_inside() -> None:
    model = nn.Linear(6, 3)
    run = torch.compile(model)

    assert isinstance(run, nn.Module)
    assert run._orig_mod is model
    assert [name for name, _ in run.named_parameters()] == ["_orig_mod.weight", "_orig_mod.bias"]
    assert list(run.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    assert run.in_features == 6
    assert torch.compile(run) is run
    run.eval()
    assert not model.training


def test_its_result_has_one_node_which_a_second_backward_finds_empty() -> None:
    run = replayed(nn.Linear(6, 3), X)
    made = run(X)

    assert made.grad_fn.name() == "CompiledFunctionBackward"
    made.sum().backward(retain_graph=True)
    made.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        made.sum().backward()


def test_gradients_are_gathered_asked_for_and_handed_on_as_ever() -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        first, model = nn.Linear(6, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh())
        run = replayed(model, first(X)) if compiled else model
        model.zero_grad()
        hidden = first(X)
        loss = (run(hidden) * run(hidden * 2)).sum()
        grads = torch.autograd.grad(loss, [hidden, *model.parameters()], retain_graph=True)
        loss.backward()
        found.append(([bits(g) for g in grads], left(first), left(model)))

    assert found[0] == found[1]


def test_what_was_written_to_after_a_replay_is_not_used() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh())
    run = replayed(model, X)
    made = run(X)
    with torch.no_grad():
        made.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


def test_another_shape_mode_or_module_makes_another_plan() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    run = replayed(model, X)
    for given in (X[:2], X[:2], X):
        run(given)
    run.eval()
    expected = model(X)
    assert bits(run(X).detach()) == bits(expected.detach())
    assert bits(run(X).detach()) == bits(expected.detach())

    assert len(run.capture.plans) == 3
    assert "training was True, is False" in run.capture.recaptured[-1]
    assert run.capture.recaptured[0].startswith("args[0] was float32 of 4×6")


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.first, self.second = nn.Linear(6, 4), nn.Linear(4, 3), nn.Linear(4, 2)
        self.scale, self.kept = 1.0, [1.0]

    def forward(self, x: Any) -> Any:
        hidden = self.trunk(x).tanh() * self.scale
        return self.first(hidden), self.second(hidden) / 0


@pytest.mark.parametrize("used", [(0,), (0, 0, 0), (0, 2), ()])
def test_results_that_no_loss_is_made_of_get_no_gradients(used: tuple[int, ...]) -> None:
    found = []
    for compiled in (False, True):
        torch.manual_seed(0)
        model = TwoHeads()
        run = replayed(model, X) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        for nr in range(4):
            optimizer.zero_grad()
            made = run(X)
            made[used[nr % len(used)] // 2 if used else nr % 2].nan_to_num().sum().backward()
            optimizer.step()
            found.append(left(model))

    assert found[:4] == found[4:]


def test_a_weight_that_is_written_to_is_not_used_though_only_a_view_of_it_is_kept() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))
    run = replayed(model, X)
    made = run(X)
    with torch.no_grad():
        model[1].weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.sum().backward()


def test_a_copy_is_of_the_copied_model_and_what_is_set_is_the_models() -> None:
    model = TwoHeads()
    run = replayed(model, X)
    copied = copy.deepcopy(run)
    with torch.no_grad():
        model.trunk.weight.zero_()
    run.scale = 2.0
    run.second = nn.Linear(4, 2)

    assert bits(copied(X)[0].detach()) == bits(copied._orig_mod(X)[0].detach())
    assert bits(run(X)[1].detach()) == bits(model(X)[1].detach())
    assert (model.scale, copied.scale, len(list(run.parameters()))) == (2.0, 1.0, 6)
    assert copied._orig_mod is copied.capture.model is not model


def test_a_list_that_the_model_keeps_is_returned_as_it_is() -> None:
    class Keeping(TwoHeads):
        def forward(self, x: Any) -> Any:
            return self.first(self.trunk(x)), self.kept

    model = Keeping()
    run = torch.compile(model)
    assert [run(X)[1] is model.kept for _ in range(4)] == [True] * 4


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, x: Any) -> Any:
        made = self.inner(x)
        return made * 2 if made.sum() > 0 else made


class Breaking(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[float] = []
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x: Any, by: float = 2.0) -> Any:
        hidden = self.first(x).tanh() * by
        self.seen.append(hidden.sum().item())
        by, *_ = sorted([by, by + 1], key=lambda each: -each)
        hidden = hidden * by
        made = F.dropout(self.second(hidden + x), 0.5)
        return made.relu(), hidden.detach()


def test_a_model_that_breaks_is_replayed_in_pieces(capsys: pytest.CaptureFixture[str]) -> None:
    found, logs = [], []
    for compiled in (False, True):
        torch.manual_seed(5)
        model = Breaking()
        run = torch.compile(model) if compiled else model
        found.append(trained(model, lambda x, run=run: run(x)[0], lambda made: made.pow(2).mean()))
        logs.append(model.seen)
    line = Breaking.forward.__code__.co_firstlineno + 2
    parts = run.capture.pieces.parts
    first, last = parts[0].function, parts[-1].function

    assert found[0] == found[1]
    assert logs[0] == logs[1]
    assert first.plans[0].replays >= 2, run.report()
    assert last.plans[0].replays >= 2, run.report()
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("gradscope: Breaking is replayed in pieces: a value is read")
    assert said[0].endswith(f"test_models.py:{line}")


def test_pieces_of_a_model_give_way_to_another_forward_and_to_hooks() -> None:
    model = Breaking()
    run = torch.compile(model)
    for _ in range(5):
        run(X)
    assert run.capture.pieces is not None
    model.register_forward_hook(lambda module, given, made: made[1] * 0 + 7.0)
    assert run(X).max() == 7.0
    model.forward = lambda x: (x, x * 0 + 3.0)
    assert run(X).max() == 7.0
    model._forward_hooks.clear()
    assert run(X)[1].max() == 3.0


def test_a_model_that_branches_at_its_end_says_where(capsys: pytest.CaptureFixture[str]) -> None:
    run = torch.compile(Branching())
    for _ in range(4):
        run(X)
    line = Branching.forward.__code__.co_firstlineno + 2

    assert run.capture.plans == []
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("gradscope: Branching is replayed in pieces: ")
    assert said[0].endswith(f"test_models.py:{line}")


def test_without_gradients_and_in_a_recording_it_runs_as_ever(
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = nn.Linear(6, 3)
    run = replayed(model, X)
    before = run.capture.plans[0].replays
    with torch.no_grad():
        assert bits(run(X)) == bits(model(X))
    with record() as recording:
        run(X).sum().backward()
    recording.stop()

    assert run.capture.plans[0].replays == before
    assert [each.kind for each in recording.trace().rows(Missed)] == [Lack.TOLD]
    assert "Linear is not replayed while it is recorded" in capsys.readouterr().err


def test_second_derivatives_are_refused_in_pytorchs_words() -> None:
    run = replayed(nn.Sequential(nn.Linear(6, 3), nn.Tanh()), X)
    made = run(X).sum()

    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(made, list(run.parameters()), create_graph=True)
