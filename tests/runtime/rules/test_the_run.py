"""Rules 24 to 30: the order of a run, backwards inside backwards, callbacks, modes and threads."""

from __future__ import annotations

import gc
import threading
import traceback
import warnings
import weakref
from typing import Any

import pytest

from gradscope.trace import schema
from gradscope.trace.trace import Trace
from tests.runtime.both import function, leaf, raises
from tests.runtime.rules.conftest import Seen
from tests.runtime.rules.looks import errors, ran


@pytest.mark.rule(26)
def test_a_queued_callback_binds_to_the_innermost_running_task_fires_once_and_may_queue_more(
    torch: Any, seen: Seen
) -> None:
    queue = torch.autograd.Variable._execution_engine.queue_callback
    happened: list[str] = []

    def say(word: str, then: Any = None) -> Any:
        def said() -> None:
            happened.append(word)
            if then is not None:
                queue(then)

        said.__name__ = said.__qualname__ = word
        return said

    def during_inner(grad: Any) -> None:
        queue(say("inner ends"))

    def during_outer(grad: Any) -> None:
        queue(say("outer ends", then=say("one more")))
        with torch.enable_grad():
            y = leaf(torch, 1.0) * 3
        y.register_hook(during_inner)
        y.backward()
        happened.append("inner is over")

    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.register_hook(during_outer)
    z = y.sum()
    z.backward(retain_graph=True)
    assert happened == ["inner ends", "inner is over", "outer ends", "one more"]

    x.register_post_accumulate_grad_hook(lambda leaf: happened.append("last node"))
    happened.clear()
    z.backward()
    assert happened == ["inner ends", "inner is over", "last node", "outer ends", "one more"]

    word = "Final callbacks can only be installed during backward pass."
    assert raises(RuntimeError, lambda: queue(say("never"))) == word

    def shows(trace: Trace) -> bool:
        ran = [(event.name, event.task) for event in trace.events(schema.Callback)]
        outer, inner, again, inner_again = (task.id for task in trace.rows(schema.GraphTask))
        every = list(trace.events(schema.Callback, schema.TaskEnd, schema.Accumulate, task=again))
        return [type(event).__name__ for event in every] == [
            "Accumulate",
            "Callback",
            "Callback",
            "TaskEnd",
        ] and ran == [
            ("inner ends", inner),
            ("outer ends", outer),
            ("one more", outer),
            ("inner ends", inner_again),
            ("outer ends", again),
            ("one more", again),
        ]

    seen(shows)


@pytest.mark.rule(26)
def test_an_error_in_a_callback_ends_the_backward_and_the_callbacks_behind_it(
    torch: Any, seen: Seen
) -> None:
    queue = torch.autograd.Variable._execution_engine.queue_callback
    happened: list[str] = []

    def wrong() -> None:
        happened.append("wrong")
        raise ValueError("not today")

    def hook(grad: Any) -> None:
        queue(wrong)
        queue(lambda: happened.append("behind"))

    x = leaf(torch, 1.0, 2.0)
    y = x * 2
    y.register_hook(hook)
    assert raises(ValueError, lambda: y.sum().backward()) == "not today"
    assert happened == ["wrong"]
    assert x.grad.tolist() == [2.0, 2.0]

    def fails(grad: Any) -> None:
        queue(lambda: happened.append("of a failed backward"))
        raise ValueError("earlier")

    y = x * 2
    y.register_hook(fails)
    assert raises(ValueError, lambda: y.sum().backward()) == "earlier"
    assert happened == ["wrong"]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]

    def shows(trace: Trace) -> bool:
        tasks = list(trace.rows(schema.GraphTask))
        called = [event.task for event in trace.events(schema.Callback)]
        return called == [tasks[0].id] and [bool(task.error) for task in tasks] == [
            True,
            True,
            False,
        ]

    seen(shows)


@pytest.mark.rule(24)
def test_the_queue_gives_out_the_deeper_level_first_then_the_newest_node(
    torch: Any, seen: Seen
) -> None:
    order: list[str] = []

    def note(tensor: Any, name: str) -> Any:
        tensor.grad_fn.register_hook(lambda *grads: order.append(name))
        return tensor

    def inside(grad: Any) -> None:
        with torch.enable_grad():
            y = leaf(torch, 1.0)
            first = note(y * 2, "inner, first made")
            second = note(y * 3, "inner, last made")
            (second + first).sum().backward()

    x = leaf(torch, 1.0)
    old = note(x * 2, "first made")
    middle = note(x * 3, "made in between")
    new = note(x * 4, "last made")
    new.register_hook(inside)
    (old + (new + middle)).sum().backward()

    assert order == [
        "inner, last made",
        "inner, first made",
        "last made",
        "made in between",
        "first made",
    ]

    def shows(trace: Trace) -> bool:
        numbers = {node.id: node.sequence_nr for node in trace.rows(schema.Node)}
        depths = {task.id: task.depth for task in trace.rows(schema.GraphTask)}
        queue: list[tuple[int, int, int]] = []  # depth, then number, of what is in it
        for event in trace.events(schema.Push, schema.Pop):
            number = numbers[event.node]
            item = (depths[event.task], number if number >= 0 else 2**64, event.node)
            if isinstance(event, schema.Push):
                queue.append(item)
            elif max(queue)[:2] != item[:2]:
                return False
            else:
                queue.remove(item)
        return not queue and set(depths.values()) == {0, 1}

    seen(shows)


@pytest.mark.rule(25)
def test_two_thousand_nested_backwards_run_surface_their_errors_and_restore_grad_mode(
    torch: Any, seen: Seen
) -> None:
    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int, fails: bool) -> Any:
            ctx.depth, ctx.fails = depth, fails
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if ctx.depth == 0 and ctx.fails:
                raise ValueError("at the bottom")
            if ctx.depth:
                with torch.enable_grad():
                    x = leaf(torch, 1.0)
                    Nested.apply(x, ctx.depth - 1, ctx.fails).sum().backward()
                assert not torch.is_grad_enabled()
                return grad + x.grad, None, None
            return grad, None, None

    x = leaf(torch, 1.0)
    Nested.apply(x, 2000, False).sum().backward()
    assert x.grad.tolist() == [2001.0]
    assert torch.is_grad_enabled()

    with torch.no_grad():
        pass
    root = Nested.apply(x, 100, True).sum()
    assert raises(ValueError, root.backward) == "at the bottom"
    assert torch.is_grad_enabled()

    def shows(trace: Trace) -> bool:
        tasks = list(trace.rows(schema.GraphTask))
        deepest = max(task.depth for task in tasks)
        entered = [event.depth for event in trace.events(schema.ReentrantEnter)]
        failed = [task for task in tasks if "at the bottom" in task.error]
        threads = {event.thread for event in trace.events(schema.NodeBegin)}
        return deepest == 2000 and max(entered) == 2000 and len(failed) == 101 and len(threads) > 30

    seen(shows)


@pytest.mark.rule(25)
def test_nested_backwards_whose_users_need_much_of_the_stack_fit_on_it(
    torch: Any, seen: Seen
) -> None:
    def deeply(frames: int, act: Any) -> Any:
        return act() if frames == 0 else deeply(frames - 1, act)

    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            if ctx.depth:
                with torch.enable_grad():
                    x = leaf(torch, 1.0)
                    deeply(4, Nested.apply(x, ctx.depth - 1).sum().backward)
            return grad, None

    x = leaf(torch, 1.0)
    Nested.apply(x, 58).sum().backward()
    assert x.grad.tolist() == [1.0]

    def shows(trace: Trace) -> bool:
        entered = list(trace.events(schema.ReentrantEnter))
        return len(entered) == 58 and len({event.thread for event in entered}) > 1

    seen(shows)


@pytest.mark.rule(30)
def test_threads_have_modes_of_their_own_share_leaves_and_carry_tracebacks(
    torch: Any, seen: Seen
) -> None:
    def threads(*work: Any) -> list[BaseException | None]:
        ended: list[BaseException | None] = [None] * len(work)

        def run(place: int) -> None:
            try:
                work[place]()
            except BaseException as error:
                ended[place] = error

        started = [threading.Thread(target=run, args=(i,)) for i in range(len(work))]
        for thread in started:
            thread.start()
        for thread in started:
            thread.join()
        return ended

    # Modes and saved-tensor hooks belong to the thread that set them.
    modes: list[Any] = []
    packed: list[str] = []

    def pack(tensor: Any) -> Any:
        packed.append(threading.current_thread().name)
        return tensor

    def look() -> None:
        x = leaf(torch, 2.0)
        modes.append((torch.is_grad_enabled(), (x * x).requires_grad))

    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        assert threads(look) == [None]
    assert (modes, packed) == ([(True, True)], [])

    # Many threads add to one leaf, and nothing is lost.
    x = leaf(torch, 1.0, 2.0)

    def add() -> None:
        for _ in range(50):
            (x * 3).sum().backward()

    assert threads(*[add] * 4) == [None] * 4
    assert x.grad.tolist() == [600.0, 600.0]

    # Of several threads on one graph that is freed as it runs, one gets through at least.
    shared = (leaf(torch, 1.0) * 2).exp().tanh().sum()
    ended = threads(*[shared.backward] * 4)
    assert None in ended
    assert {str(error).split(" (")[0] for error in ended if error is not None} <= {
        "Trying to backward through the graph a second time"
    }

    # What a hook raises comes out with the frames it went through.
    def fail(grad: Any) -> None:
        raise KeyError("in a hook")

    def backward() -> None:
        y = leaf(torch, 1.0) * 2
        y.register_hook(fail)
        y.sum().backward()

    (error,) = threads(backward)
    assert isinstance(error, KeyError)
    assert "fail" in [frame.name for frame in traceback.extract_tb(error.__traceback__)]

    def shows(trace: Trace) -> bool:
        adding = list(trace.events(schema.Accumulate))
        ran = {task.thread for task in trace.rows(schema.GraphTask)}
        runners = {event.thread for event in trace.events(schema.NodeBegin)}
        return len(adding) >= 201 and len(ran) == 9 and runners == ran

    seen(shows)


@pytest.mark.rule(27)
def test_graphs_live_and_die_by_reference_count_without_recursion(torch: Any, seen: Seen) -> None:
    length = 30_000  # on 8 MB of stack, 280 bytes each: no function has frames so small
    x = leaf(torch, 1.0)

    def chain() -> Any:
        y = x * 1
        for _ in range(length):
            y = y + 0
        return y

    gc.disable()  # so that only reference counts can free anything
    try:
        end = chain()
        end.sum().backward()
        assert x.grad.tolist() == [1.0]
        first = end.grad_fn.next_functions[0][0]
        held = weakref.ref(first) if hasattr(type(first), "__weakref__") else None
        middle = x * 2
        alive = weakref.ref(middle)
        last = middle.exp()
        del middle
        assert alive() is None  # exp kept its result, and mul its other operand, a number
        kept = x * 3
        alive = weakref.ref(kept)
        squared = kept * kept
        del kept
        assert alive() is not None
        del squared, last, first, end
        assert alive() is None
        assert held is None or held() is None
        del held
        chain()  # dies without having run
    finally:
        gc.enable()

    def shows(trace: Trace) -> bool:
        highest = max(node.topological_nr for node in trace.rows(schema.Node))
        (task,) = {event.task for event in trace.events(schema.NodeBegin)}
        return highest >= length and len(ran(trace, task)) == length + 3

    seen(shows)


@pytest.mark.rule(27)
def test_a_cycle_that_a_user_made_through_ctx_is_collected(torch: Any, seen: Seen) -> None:
    class Token:
        pass

    def forward(ctx: Any, x: Any) -> Any:
        ctx.token, ctx.me = tokens.pop(), ctx
        return x * 2

    tokens = [Token(), Token()]
    held = [weakref.ref(token) for token in tokens]
    mine = function(torch, forward, lambda ctx, grad: grad * 2)
    ran_once = mine.apply(leaf(torch, 1.0))
    never_ran = mine.apply(leaf(torch, 1.0))
    for made in (ran_once, never_ran):
        made.grad_fn.output = made
    ran_once.backward()
    del ran_once, never_ran, made
    gc.collect()
    assert [reference() for reference in held] == [None, None]

    def shows(trace: Trace) -> bool:
        """One of the two nodes ran, and neither made an edge back."""
        made = [node.id for node in trace.rows(schema.Node) if node.name == "MineBackward"]
        back = [edge for edge in trace.rows(schema.Edge) if edge.next in made]
        return len(made) == 2 and not back and ran(trace) == ["MineBackward", "AccumulateGrad"]

    seen(shows)


@pytest.mark.rule(28)
@pytest.mark.parametrize("mode", ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode"])
def test_a_decorated_generator_is_in_its_mode_only_while_it_runs(
    torch: Any, seen: Seen, mode: str
) -> None:
    on = mode == "enable_grad"
    made = torch.set_grad_enabled(False) if mode == "set_grad_enabled" else getattr(torch, mode)()
    x = leaf(torch, 2.0)
    modes: list[Any] = []

    def look(where: str) -> None:
        modes.append((where, torch.is_grad_enabled()))

    @made
    def steps() -> Any:
        look("begins")
        x * 3
        try:
            while True:
                try:
                    got = yield torch.is_grad_enabled()
                    look(f"got {got}")
                except KeyError:
                    look("caught")
        finally:
            look("closes")

    torch.set_grad_enabled(not on)
    try:
        generator = steps()
        assert (next(generator), torch.is_grad_enabled()) == (on, not on)
        x * 5
        assert (generator.send("word"), torch.is_grad_enabled()) == (on, not on)
        assert (generator.throw(KeyError()), torch.is_grad_enabled()) == (on, not on)
        generator.close()
        assert torch.is_grad_enabled() is not on
        with pytest.raises(ZeroDivisionError):
            thrown = steps()
            next(thrown)
            thrown.throw(ZeroDivisionError())
        assert torch.is_grad_enabled() is not on
    finally:
        torch.set_grad_enabled(True)
    assert modes == [
        (where, on) for where in ("begins", "got word", "caught", "closes", "begins", "closes")
    ]

    def shows(trace: Trace) -> bool:
        """Of what was computed, it was recorded either inside or outside, as the mode says."""
        inside, outside, _ = list(trace.rows(schema.Op))
        return [op.node >= 0 for op in (inside, outside)] == [on, not on]

    seen(shows)


def firsts(caught: Any) -> list[str]:
    """What warnings say, without stacks and without where PyTorch's come from."""
    said = (str(w.message).partition(" (Triggered internally")[0] for w in caught)
    return [next(line for line in text.splitlines() if line) for text in said]


@pytest.mark.rule(29)
def test_anomaly_mode_says_which_output_which_forward_and_which_parents(
    torch: Any, seen: Seen
) -> None:
    detect = torch.autograd.detect_anomaly
    bad = function(torch, lambda ctx, a, b: a * b, lambda ctx, g: (g, g * float("nan")), name="Bad")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with detect():
            y = bad.apply(leaf(torch, 1.0), leaf(torch, 2.0))
            second = raises(RuntimeError, y.backward)
            x = leaf(torch, 0.0)
            z = (x**2.5).sum()
            (slope,) = torch.autograd.grad(z, x, create_graph=True)
            (bend,) = torch.autograd.grad(slope.sum(), x, create_graph=True)
            parents = raises(RuntimeError, (bend * 0).sum().backward)
            with detect(check_nan=False):
                assert not torch.is_anomaly_check_nan_enabled()
                bad.apply(leaf(torch, 1.0), leaf(torch, 2.0)).backward()
            assert torch.is_anomaly_check_nan_enabled()
        assert not torch.is_anomaly_enabled()

    assert second == "Function 'BadBackward' returned nan values in its 1th output."
    assert parents == "Function 'PowBackward0' returned nan values in its 0th output."
    told = "Traceback of forward call that"
    parent = (
        f"Previous calculation was induced by PowBackward0. {told} induced the previous "
        "calculation:"
    )
    assert [text for text in firsts(caught) if "Detection" not in text] == [
        f"Error detected in BadBackward. {told} caused the error:",
        f"Error detected in PowBackward0. {told} caused the error:",
        parent,
        parent,
    ]
    stacks = [str(w.message) for w in caught if "Traceback of forward" in str(w.message)]
    assert [line in text for text, line in zip(stacks, ["bad.apply", "torch.autograd.grad(sl",
            "torch.autograd.grad(z", "(x**2.5)"], strict=True)] == [True] * 4  # fmt: skip

    def shows(trace: Trace) -> bool:
        return [(node, text) for node, _, text in errors(trace)] == [
            ("BadBackward", second),
            ("PowBackward0", parents),
        ]

    seen(shows)


@pytest.mark.rule(29)
def test_where_warnings_are_errors_anomaly_mode_writes_them_down(
    torch: Any, seen: Seen, capsys: Any
) -> None:
    def backward(ctx: Any, grad: Any) -> Any:
        raise LookupError("my own")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        detection = torch.autograd.detect_anomaly()
    with detection:
        y = function(torch, lambda ctx, x: x * 1, backward).apply(leaf(torch, 1.0))
        assert raises(LookupError, y.backward) == "my own"
    assert capsys.readouterr().err.startswith(
        "UserWarning: Error detected in MineBackward. Traceback of forward call that caused the "
        "error:\n"
    )

    def shows(trace: Trace) -> bool:
        return errors(trace) == [("MineBackward", "LookupError", "my own")]

    seen(shows)
