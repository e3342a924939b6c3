"""Checkpoints: the same gradients, from a second run instead of from what was kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest

from tests.runtime.both import function, leaf, raises

BOTH = pytest.mark.parametrize("use_reentrant", [False, True])


def parts(torch: Any) -> Any:
    """torch.utils.checkpoint."""
    if torch.__name__ == "torch":
        import torch.utils.checkpoint as real

        return real
    import gradscope.runtime.utils.checkpoint as ours

    return ours


class Counted:
    """A function that counts its calls."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)


@BOTH
def test_gradients_are_the_same_and_the_function_runs_twice(
    torch: Any, use_reentrant: bool
) -> None:
    x, w = leaf(torch, 0.5, 1.0), leaf(torch, 2.0, 3.0)
    run = Counted(lambda x, w: (x * w).sin().exp())
    expected = torch.autograd.grad(run.function(x, w).sum(), (x, w))

    y = parts(torch).checkpoint(run, x, w, use_reentrant=use_reentrant)
    assert run.calls == 1
    y.sum().backward()

    assert run.calls == 2
    assert [x.grad.tolist(), w.grad.tolist()] == [g.tolist() for g in expected]


def test_leaves_the_function_closes_over_get_gradients_too(torch: Any) -> None:
    for use_reentrant in (False, True):
        x, w = leaf(torch, 0.5), leaf(torch, 2.0)
        parts(torch).checkpoint(
            lambda x, w=w: (x * w).sin(), x, use_reentrant=use_reentrant
        ).backward()
        assert w.grad.item() == pytest.approx(0.5 * torch.tensor(1.0).double().cos().item())


@BOTH
def test_the_same_random_numbers_come_again_and_the_sequence_goes_on_undisturbed(
    torch: Any, use_reentrant: bool
) -> None:
    masks: list[Any] = []

    def noisy(x: Any) -> Any:
        mask = torch.rand(4)
        masks.append(mask.tolist())
        return (x * mask).sin()

    torch.manual_seed(1)
    y = parts(torch).checkpoint(
        noisy, torch.ones(4, requires_grad=True), use_reentrant=use_reentrant
    )
    torch.rand(3)
    state = torch.get_rng_state()
    y.sum().backward()

    assert masks[0] == masks[1]
    assert torch.get_rng_state().tolist() == state.tolist()


@BOTH
def test_other_random_numbers_come_where_nobody_minds(torch: Any, use_reentrant: bool) -> None:
    masks: list[Any] = []

    def noisy(x: Any) -> Any:
        masks.append(torch.rand(4).tolist())
        return x.sin()

    torch.manual_seed(1)
    x = torch.ones(4, requires_grad=True)
    y = parts(torch).checkpoint(noisy, x, use_reentrant=use_reentrant, preserve_rng_state=False)
    state = torch.get_rng_state()
    y.sum().backward()

    assert masks[0] != masks[1]
    assert torch.get_rng_state().tolist() != state.tolist()


@BOTH
def test_the_random_state_is_put_back_when_the_second_run_fails(
    torch: Any, use_reentrant: bool
) -> None:
    calls: list[int] = []

    def fails(x: Any) -> Any:
        calls.append(1)
        torch.rand(1)
        if len(calls) == 2:
            raise ValueError("second")
        return x.sin()

    y = parts(torch).checkpoint(fails, leaf(torch, 1.0), use_reentrant=use_reentrant)
    state = torch.get_rng_state()

    assert raises(ValueError, y.backward) == "second"
    assert torch.get_rng_state().tolist() == state.tolist()
    kept: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        leaf(torch, 1.0).sin()
    assert len(kept) == 1  # nothing of the failed run is left in the way


def test_the_function_stops_as_soon_as_all_that_was_saved_is_there(torch: Any) -> None:
    reached: list[str] = []

    def f(x: Any) -> Any:
        reached.append("begin")
        y = x.sin().cos()
        reached.append("end")
        return y + 1

    x = leaf(torch, 1.0)
    parts(torch).checkpoint(f, x, use_reentrant=False).backward()
    assert reached == ["begin", "end", "begin"]

    reached.clear()
    parts(torch).checkpoint(f, x, use_reentrant=False, early_stop=False).backward()
    assert reached == ["begin", "end"] * 2

    reached.clear()
    with parts(torch).set_checkpoint_early_stop(False):
        y = parts(torch).checkpoint(f, x, use_reentrant=False, early_stop=True)
    y.backward()
    assert reached == ["begin", "end"] * 2

    reached.clear()
    with parts(torch).set_checkpoint_early_stop(True):
        y = parts(torch).checkpoint(f, x, use_reentrant=False, early_stop=False)
    y.backward()
    assert reached == ["begin", "end", "begin"]


def test_switches_are_put_back_after_an_exception(torch: Any) -> None:
    reached: list[str] = []

    def f(x: Any) -> Any:
        y = x.sin()
        reached.append("end")
        return y

    for switch in ("set_checkpoint_early_stop", "set_checkpoint_debug_enabled"):
        with pytest.raises(ValueError, match="out"), getattr(parts(torch), switch)(False):
            raise ValueError("out")
    parts(torch).checkpoint(f, leaf(torch, 1.0), use_reentrant=False).backward()

    assert reached == ["end"]


def test_checkpoints_nest(torch: Any) -> None:
    calls = {"outer": 0, "middle": 0, "inner": 0}
    checkpoint = parts(torch).checkpoint

    def inner(x: Any) -> Any:
        calls["inner"] += 1
        return x.sin().exp()

    def middle(x: Any) -> Any:
        calls["middle"] += 1
        return checkpoint(inner, x.cos(), use_reentrant=False).sin()

    def outer(x: Any) -> Any:
        calls["outer"] += 1
        return checkpoint(middle, x.tanh(), use_reentrant=False).exp()

    x = leaf(torch, 0.5, 1.0)
    expected = torch.autograd.grad(x.tanh().cos().sin().exp().sin().exp().sum(), x)[0]
    outer_result = checkpoint(outer, x, use_reentrant=False)
    assert calls == {"outer": 1, "middle": 1, "inner": 1}
    outer_result.sum().backward()

    assert x.grad.tolist() == expected.tolist()
    assert calls == {"outer": 2, "middle": 3, "inner": 4}


@pytest.mark.filterwarnings("ignore:None of the inputs")
@pytest.mark.parametrize("kinds", [(False, True), (True, False), (True, True)])
def test_reentrant_checkpoints_nest_in_each_other_and_in_the_other_kind(
    torch: Any, kinds: tuple[bool, bool]
) -> None:
    checkpoint = parts(torch).checkpoint

    def outer(x: Any) -> Any:
        return checkpoint(lambda x: x.sin().exp(), x.cos(), use_reentrant=kinds[1]).tanh()

    x = leaf(torch, 0.5, 1.0)
    expected = torch.autograd.grad(x.cos().sin().exp().tanh().sum(), x)[0]
    checkpoint(outer, x, use_reentrant=kinds[0]).sum().backward()

    assert x.grad.tolist() == expected.tolist()


@BOTH
def test_a_graph_that_is_kept_is_run_again_by_each_backward(
    torch: Any, use_reentrant: bool
) -> None:
    run = Counted(lambda x: x.sin().exp())
    x = leaf(torch, 0.5)
    y = parts(torch).checkpoint(run, x, use_reentrant=use_reentrant)
    y.backward(retain_graph=True)
    once = x.grad.item()
    y.backward(retain_graph=True)
    y.backward()

    assert run.calls == 4
    assert x.grad.item() == pytest.approx(3 * once)
    assert raises(RuntimeError, y.backward).startswith("Trying to backward through the graph a sec")


def test_only_some_gradients_may_be_asked_for(torch: Any) -> None:
    x, w = leaf(torch, 0.5), leaf(torch, 2.0)
    y = parts(torch).checkpoint(lambda x, w: (x * w).sin(), x, w, use_reentrant=False)
    expected = torch.autograd.grad((x * w).sin(), x)

    assert torch.autograd.grad(y, x, retain_graph=True)[0].tolist() == expected[0].tolist()
    y.backward(inputs=[w])
    assert x.grad is None
    assert w.grad is not None


def test_the_second_derivative_runs_the_function_once_more(torch: Any) -> None:
    run = Counted(lambda x: x.sin().exp())
    x = leaf(torch, 0.5, 1.0)
    (first,) = torch.autograd.grad(run.function(x).sum(), x, create_graph=True)
    (expected,) = torch.autograd.grad(first.sum(), x)

    y = parts(torch).checkpoint(run, x, use_reentrant=False)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)

    assert second.tolist() == pytest.approx(expected.tolist())
    assert run.calls == 3


def test_a_backward_may_run_inside_the_function(torch: Any) -> None:
    def f(x: Any) -> Any:
        y = x.sin()
        z = y.cos()
        (gx,) = torch.autograd.grad(z, x)
        return x.cos() * gx

    def kept(x: Any) -> Any:
        z = x.sin().cos()
        (gx,) = torch.autograd.grad(z, x, retain_graph=True)
        return z * gx

    for g in (f, kept):
        for early_stop in (True, False):
            x = leaf(torch, 0.5)
            (expected,) = torch.autograd.grad(g(x), x)
            y = parts(torch).checkpoint(g, x, use_reentrant=False, early_stop=early_stop)
            assert torch.autograd.grad(y, x)[0].tolist() == expected.tolist()


def test_keywords_and_values_that_are_no_tensors_go_through(torch: Any) -> None:
    x, w = leaf(torch, 0.5), leaf(torch, 2.0)

    def f(x: Any, power: int, *, rest: Any, name: str = "") -> Any:
        return (x * rest["w"]) ** power, name

    y, name = parts(torch).checkpoint(f, x, 3, rest={"w": w}, name="n", use_reentrant=False)
    y.backward()
    assert (name, x.grad.item(), w.grad.item()) == ("n", 3 * 0.25 * 8.0, 3 * 0.125 * 4.0)

    def g(x: Any, power: int, note: Any) -> Any:
        return x**power, x * 2

    x.grad = None
    y, z = parts(torch).checkpoint(g, x, 3, None, use_reentrant=True)
    (y + z).backward()
    assert x.grad.item() == 0.75 + 2.0


def test_nothing_is_recorded_under_no_grad(torch: Any) -> None:
    run = Counted(lambda x: x.sin())
    with torch.no_grad():
        y = parts(torch).checkpoint(run, leaf(torch, 1.0), use_reentrant=False)

    assert (y.requires_grad, run.calls) == (False, 1)


def test_contexts_are_entered_around_each_run(torch: Any) -> None:
    happened: list[str] = []

    @contextmanager
    def context(name: str) -> Any:
        happened.append(f"{name} begins")
        try:
            yield
        finally:
            happened.append(f"{name} ends")

    x = leaf(torch, 1.0)
    y = parts(torch).checkpoint(
        lambda x: x.sin(),
        x,
        use_reentrant=False,
        context_fn=lambda: (context("forward"), context("again")),
    )
    assert happened == ["forward begins", "forward ends"]
    y.backward()
    assert happened[2:] == ["again begins", "again ends"]


def test_a_saved_value_read_outside_a_backward_is_computed_for_that(torch: Any) -> None:
    run = Counted(lambda x: x.sin().cos())
    x = leaf(torch, 0.5)
    y = parts(torch).checkpoint(run, x, use_reentrant=False)

    assert y.grad_fn._saved_self.item() == x.sin().item()
    assert y.grad_fn._saved_self.item() == x.sin().item()
    assert run.calls == 3
    y.backward()
    assert x.grad is not None


def test_backwards_in_a_group_share_one_second_run(torch: Any) -> None:
    run = Counted(lambda x: (x.sin(), x.cos()))
    x = leaf(torch, 0.5)
    group = parts(torch).GraphExecGroup
    y, z = parts(torch).checkpoint(run, x, use_reentrant=False)
    with group():
        y.backward()
        z.backward()
    assert run.calls == 2

    y = parts(torch).checkpoint(run, x, use_reentrant=False)[0]
    with group():
        y.backward(retain_graph=True)
        error = raises(RuntimeError, y.backward)
        nested = raises(RuntimeError, lambda: group().__enter__())
    assert error.startswith(
        "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked "
        "once. Performing two backward calls that overlap"
    )
    assert nested.startswith("GraphExecGroup contexts cannot be nested. Already inside group <")
    with group():
        y.backward()


def test_a_custom_function_reads_its_saved_tensors_once(torch: Any) -> None:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.clone()

    def backward(ctx: Any, grad: Any) -> Any:
        ctx.saved_tensors  # noqa: B018
        return grad * ctx.saved_tensors[0]

    y = parts(torch).checkpoint(
        function(torch, forward, backward).apply, leaf(torch, 1.0), use_reentrant=False
    )

    assert raises(parts(torch).CheckpointError, y.backward) == (
        "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked "
        "once. If you are calling ctx.saved_tensors in backward, make sure to do so only once. "
        "Otherwise please open an issue with details on your use case."
    )


def test_views_writes_and_views_of_inputs_go_through(torch: Any) -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y[1:].mul_(3)
        return y.view(2, 2).t().exp() * y[:2]

    x = leaf(torch, 0.1, 0.2, 0.3, 0.4)
    (expected,) = torch.autograd.grad(f(x).sum(), x)
    for use_reentrant in (False, True):
        x.grad = None
        parts(torch).checkpoint(f, x, use_reentrant=use_reentrant).sum().backward()
        assert x.grad.tolist() == pytest.approx(expected.tolist())


@BOTH
def test_several_segments_of_a_sequential_run_again_one_by_one(
    torch: Any, use_reentrant: bool
) -> None:
    steps = [Counted(step) for step in (torch.sin, torch.cos, torch.tanh, torch.exp, torch.sin)]
    x = leaf(torch, 0.5, 1.0)
    (expected,) = torch.autograd.grad(x.sin().cos().tanh().exp().sin().sum(), x)
    parts(torch).checkpoint_sequential(steps, 2, x, use_reentrant=use_reentrant).sum().backward()

    assert x.grad.tolist() == expected.tolist()
    assert [step.calls for step in steps] == [2, 2, 1, 1, 1]

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    data = torch.ones(4, 2, requires_grad=True)
    out = parts(torch).checkpoint_sequential(model, 3, data, use_reentrant=use_reentrant)
    out.sum().backward()
    again = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    model(data).sum().backward()
    assert all(torch.equal(a, p.grad) for a, p in zip(again, model.parameters(), strict=True))


def test_dropout_drops_the_same_elements_again(torch: Any) -> None:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5))
    x = torch.ones(2, 8, requires_grad=True)
    for use_reentrant in (False, True):
        torch.manual_seed(5)
        (expected,) = torch.autograd.grad(model(x).sin().sum(), x)
        torch.manual_seed(5)
        x.grad = None
        parts(torch).checkpoint(
            lambda x: model(x).sin(), x, use_reentrant=use_reentrant
        ).sum().backward()
        assert torch.equal(x.grad, expected)


def test_inputs_are_detached_as_leaves(torch: Any) -> None:
    x = leaf(torch, 1.0)
    y = x * 2
    made = parts(torch).detach_variable((y, y.detach(), 3))

    assert [t.requires_grad for t in made[:2]] == [True, False]
    assert made[0].is_leaf
    assert made[2] == 3
    assert raises(RuntimeError, lambda: parts(torch).detach_variable([x])) == (
        "Only tuple of tensors is supported. Got Unsupported input type: list"
    )


def test_there_are_no_states_of_other_devices(torch: Any) -> None:
    assert parts(torch).get_device_states(torch.ones(1), [torch.ones(2)], "x") == ([], [])
    parts(torch).set_device_states([], [])
    assert parts(torch).DefaultDeviceType.get_device_type() == "cpu"
    assert len(parts(torch).noop_context_fn()) == 2


@BOTH
@pytest.mark.parametrize("enabled", [False, True])
def test_the_second_run_casts_as_the_first_did(
    torch: Any, use_reentrant: bool, enabled: bool
) -> None:
    found: list[Any] = []

    def product(x: Any, y: Any) -> Any:
        found.append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
        return torch.mm(x, y)

    x = torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", enabled=enabled, dtype=torch.bfloat16):
        loss = parts(torch).checkpoint(product, x, x, use_reentrant=use_reentrant).sum()
    with torch.autocast("cpu", enabled=not enabled, dtype=torch.float16):
        loss.backward()

    assert found == [(enabled, torch.bfloat16)] * 2
    assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_what_needs_no_gradient_comes_back_as_the_very_tensor(torch: Any) -> None:
    found: list[Any] = []

    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(y)
        return x * 2

    def backward(ctx: Any, grad: Any) -> Any:
        found.extend(ctx.saved_tensors)
        return grad * 2, None

    mine, constant = function(torch, forward, backward), torch.ones(1)
    parts(torch).checkpoint(mine.apply, leaf(torch, 1.0), constant, use_reentrant=False).backward()

    assert found[0] is constant
