"""Level `values` of PyTorch: what is looked at, that nothing changes by it, and what is found."""

from __future__ import annotations

import re
from collections import Counter
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gradscope.analysis.findings import Certainty
from gradscope.analysis.report import inspect
from gradscope.record.recorder import Options, Recording
from gradscope.trace.schema import NONE, Accumulate, BufferAdded, Op, Place, Value
from gradscope.trace.spec import check
from gradscope.trace.trace import Trace
from gradscope.trace.writer import MemoryWriter
from tests.programs import Program, outcome, programs
from tests.record.from_pytorch.called.test_calls import flush
from tests.record.from_pytorch.test_findings import found, recorded as faulty
from tests.record.from_pytorch.test_programs import PROGRAMS
from tests.record.from_pytorch.watching import recorded, watched
from tests.record.running import House
from tests.runtime.engines import same
from tests.shared.searching import searching

pytestmark = pytest.mark.torch


def births(script: str) -> list[tuple[str, str]]:
    """What is found, up to the numbers, and where."""
    messages = [(each.message.partition(":")[0], each) for each in found(script, "values")]
    assert {each.rule for _, each in messages} <= {"GS201"}
    return [(each.message.split(" (")[0], each.site.place) for _, each in messages]


def looked_at(trace: Trace) -> Counter[str]:
    return Counter(Place(each).name for each in trace.table(Value)["place"].tolist())


def test_results_gradients_leaves_and_seeds_are_looked_at() -> None:
    import torch

    def program() -> list[Any]:
        w = torch.tensor([1.0, -2.0, 4.0], requires_grad=True)
        x = torch.tensor([0.5, 0.25, 0.0])
        y = w * x
        y.sum().backward()
        return [y.detach(), w.grad]

    (y, grad), trace = watched(program, "values")
    rows = {(Place(row.place).name, row.index): row for row in trace.rows(Value)}
    assert looked_at(trace) == {
        "LEAF": 2, "OP_OUTPUT": 2, "SEED": 1, "NODE_INPUT": 3, "NODE_OUTPUT": 3 - 1, "GRAD": 1,
    }  # fmt: skip
    gathered = rows["GRAD", 0]
    assert (gathered.count, gathered.zero, gathered.max) == (3, 1, grad.max().item())
    assert gathered.norm == pytest.approx(grad.norm().item())
    names = {row.id: row.name for row in trace.rows(Op)}
    (product,) = [row for row in trace.rows(Value) if names.get(row.op) == "mul"]
    assert (product.min, product.max, product.zero) == (y.min().item(), y.max().item(), 1)


def test_a_double_beyond_single_precision_is_read_without_a_warning(house: House) -> None:
    house.write(
        "import torch\n"
        "x = torch.full((2,), 1e300, dtype=torch.float64, requires_grad=True)\n"
        "x.mul(2).sum().backward()\n"
    )
    traced = house.gradscope("trace", "-q", "--on", "torch", "--level", "values", "script.py")
    assert traced.err == ""


def test_a_double_is_read_whose_half_is_no_number() -> None:
    """Half of its bits, read as a number of single precision, is a signalling NaN."""
    import torch

    number = torch.tensor([0x3FF000007FA00000]).view(torch.float64)

    def program() -> Any:
        x = torch.ones(1, dtype=torch.float64, requires_grad=True)
        (x * number).sum().backward()
        return x.grad

    with np.errstate(invalid="raise"):
        grad, trace = watched(program, "values")

    (gathered,) = [row for row in trace.rows(Value) if row.place == Place.GRAD]
    assert gathered.min == gathered.max == grad.item() == number.item()
    (call,) = [row for row in trace.rows(Op) if row.name == "mul"]
    assert len(call.inputs) == 2  # w, and x, which the node keeps
    assert "value" in trace.meta["observed"]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_looking_changes_nothing(name: str) -> None:
    """Numbers bit for bit, and how gradients are added and taken over."""
    import torch

    program, _ = PROGRAMS[name]
    unwatched = program(torch)
    _, engine = watched(lambda: program(torch), "engine")
    seen, values = watched(lambda: program(torch), "values")

    for one, other in zip(seen, unwatched, strict=True):
        assert torch.equal(one, other) if isinstance(other, torch.Tensor) else one == other
    for kind, column in ((Accumulate, "how"), (BufferAdded, "in_place")):
        assert values.table(kind)[column].tolist() == engine.table(kind)[column].tolist()
    assert [each.message for each in inspect(values).findings] == []


@pytest.mark.filterwarnings("ignore")
@searching(40)
@given(programs())
def test_a_random_program_does_what_it_does_unwatched(program: Program) -> None:
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    unwatched = outcome(torch, program)
    recording = Recording(MemoryWriter(), Options(level="values"), PyTorch())
    with recording:
        watched = outcome(torch, program)
        faults = recording.session.source.watcher.faults.texts

    assert faults == {}
    for key in unwatched:
        assert same(watched.get(key), unwatched[key]), key
    assert check(recording.trace()) == []


def test_a_square_root_of_zero_is_found_in_its_backward() -> None:
    assert births("""
        x = torch.zeros(3, requires_grad=True)
        (x * 2).sqrt().sum().backward()
    """) == [("Inf first produced in the backward of SqrtBackward0", "faulty.py:2")]


def test_a_logarithm_of_zero_is_found_in_the_forward_and_named_by_its_line() -> None:
    first, *_ = births("""
        w = torch.zeros(3, requires_grad=True)
        p = torch.relu(w)
        loss = -(p.log() * torch.ones(3)).sum()
        loss.backward()
    """)

    assert first == ("Inf first produced in the forward call log", "faulty.py:3")


def test_a_nan_in_the_data_is_found_to_come_from_outside() -> None:
    ((message, place),) = births("""
        data = torch.ones(2, 3)
        data[0, 1] = float("nan")
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        model(data).sum().backward()
    """)

    assert message.startswith(
        "NaN first produced outside the graph: data converted to a tensor brought it in"
    )
    assert place == "faulty.py:2"


def test_a_hook_that_divides_by_zero_is_found_by_its_name() -> None:
    ((message, place),) = births("""
        w = torch.ones(3, requires_grad=True)
        y = w * 2
        def halve(grad):
            return grad / 0
        y.register_hook(halve)
        y.sum().backward()
    """)

    assert message.startswith(
        "Inf first produced in the call div of the hook halve on MulBackward0"
    )
    assert place == "faulty.py:4"


def test_results_of_whole_numbers_are_not_looked_at() -> None:
    import torch

    from gradscope.record.from_pytorch.pytorch_engine import PyTorch

    x = torch.ones(100, requires_grad=True)
    with Recording(MemoryWriter(), Options(level="values"), PyTorch()) as recording:
        ring = recording.session.source.listener.values.ring  # type: ignore[union-attr]
        before = ring._reader.waiting()
        _ = x > 0, x.argmax(), x.bool()
        after_whole = ring._reader.waiting()
        _ = x * 2
        after_product = ring._reader.waiting()

    assert (after_whole - before, after_product - after_whole) == (0, 1)


def test_a_sum_of_infinities_is_found_where_the_gradients_meet() -> None:
    why = found(
        """
        x = torch.zeros(2, requires_grad=True)
        y = x * 1
        (y.sqrt() - y.sqrt()).sum().backward()
    """,
        "values",
    )[0].why

    assert re.search("what followed from it: NaN.* MulBackward0", why), why


def test_an_operand_that_nobody_kept_makes_a_birth_uncertain() -> None:
    finding = found(
        """
        w = torch.ones(2, requires_grad=True)
        with torch.no_grad():
            offset = torch.ones(2) / torch.tensor([1.0, 0.0])
        (w + offset).sum().backward()
    """,
        "values",
    )[0]

    assert finding.certainty is Certainty.INFERRED
    assert finding.site.place == "faulty.py:4"
    assert finding.message.startswith("Inf first seen in the forward call add")
    assert finding.why.startswith("an operand that was not recorded may have held it")


def test_one_of_two_blocks_that_share_their_lines_is_named() -> None:
    message = found(
        """
        class Block(torch.nn.Module):
            def forward(self, x):
                return (x - 1).log()
        model = torch.nn.Sequential(torch.nn.Identity(), Block(), Block())
        model(torch.full((2,), 3.0, requires_grad=True)).sum().backward()
    """,
        "values",
    )[0].message

    assert message.startswith(
        "NaN first produced in the forward call log in module 2 (faulty.py:3)"
    )


def test_a_nan_that_comes_out_of_a_list_is_not_born_again() -> None:
    found = births("""
        x = torch.tensor([0.0, 1.0, 2.0, 3.0], requires_grad=True)
        low, high = (x - 1).log().chunk(2)
        (low.view(2).unbind(0)[0] * high.sum()).backward()
    """)

    assert found[0] == ("NaN first produced in the forward call log", "faulty.py:2")
    assert not [message for message, _ in found if "forward call" in message][1:]


def test_what_an_optimizer_makes_of_a_nan_is_not_born_again_in_the_next_step() -> None:
    found = births("""
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            F.relu(model(torch.ones(2, 3))).sub(9).sqrt().sum().backward()
            optimizer.step()
    """)

    assert found == [("NaN first produced in the forward call sqrt", "faulty.py:6")]


def test_a_healthy_training_has_no_findings() -> None:
    import torch

    def program() -> None:
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Dropout(), torch.nn.LazyLinear(3),
        )  # fmt: skip
        x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 3, (8,))
        model(x)
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()

    _, trace = recorded(program, "values")

    assert inspect(trace).findings == ()
    assert inspect(trace).unchecked == ()
    assert len(trace.table(Value)) > 100


def test_a_gradient_that_is_none_is_nothing_that_could_not_be_read() -> None:
    import torch

    class Forgets(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: Any) -> Any:
            ctx.save_for_backward(scale)
            return x * scale

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.saved_tensors[0], None

    def program() -> None:
        x, scale = (torch.ones(2, requires_grad=True) for _ in range(2))
        Forgets.apply(x, scale).sum().backward()
        assert scale.grad is None

    _, trace = recorded(program, "values")

    assert "unseen" not in trace.meta


def test_masks_of_minus_infinity_are_no_findings_in_a_healthy_program() -> None:
    assert not found(
        """
        nn, never = torch.nn, float("-inf")
        mask = nn.Transformer.generate_square_subsequent_mask(4)
        layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
        attention = nn.MultiheadAttention(8, 2)
        pad = torch.tensor([[False, False, True, True], [False, False, False, True]])
        for _ in range(2):
            x = layer(torch.randn(2, 4, 8), src_mask=mask, is_causal=True)
            y, weights = attention(*[x.transpose(0, 1)] * 3, key_padding_mask=pad)
            z = F.scaled_dot_product_attention(x, x, x, attn_mask=mask)
            scores = (x @ z.mT + mask).softmax(-1)
            best = torch.full((4,), never).index_put((torch.arange(2),), y.sum((0, 2)))
            loss = scores.var() + weights.var() + best.logsumexp(0)
            loss.backward()
        """,
        "values",
    )


def test_a_mask_of_minus_infinity_is_found_where_harm_came_of_it() -> None:
    said = births("""
        x = torch.ones(2, 2, requires_grad=True)
        mask = torch.tensor([[0.0, float("-inf")], [float("-inf"), float("-inf")]])
        (x + mask).softmax(1).sum().backward()
    """)

    assert said[:2] == [
        ("NaN produced from an Inf in the forward call _softmax", "faulty.py:3"),
        (
            "Inf first produced outside the graph: data converted to a tensor brought it in",
            "faulty.py:2",
        ),
    ]


@pytest.mark.parametrize(("steps", "healthy"), [(6, True), (2, False)])
def test_what_a_scaler_threw_away_is_no_finding_once_it_has_found_its_scale(
    steps: int, healthy: bool
) -> None:
    findings = found(
        f"""
        w = torch.ones(2, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**18)
        for _ in range({steps}):
            optimizer.zero_grad()
            scaler.scale((w.half() * 2).float().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        """,
        "values",
    )

    assert (not findings) == healthy
    assert {each.rule for each in findings} <= {"GS201"}


def test_without_machine_code_values_are_measured_and_rules_about_writes_say_so() -> None:
    import torch

    import gradscope

    with gradscope.record(on="torch", native=False, level="values") as recording:
        torch.zeros(1, requires_grad=True).sqrt().backward()
    trace = recording.trace()

    report = inspect(trace)
    assert {each.rule for each in report.unchecked if each.lacks} >= {"GS302"}
    (found,) = [each for each in report.findings if each.rule == "GS201"]
    assert "SqrtBackward0" in found.message


def test_a_trace_of_faults_at_this_level_keeps_every_rule() -> None:
    trace = faulty(
        """
        x = torch.ones(3, requires_grad=True)
        y = x.exp()
        y.add_(1)
        y.sum().backward()
    """,
        "values",
    )

    assert check(trace) == []
    assert [each.rule for each in inspect(trace).findings] == ["GS302"]


def test_watching_begins_without_importing_more_of_pytorch(house: House) -> None:
    house.write(
        """
import sys, torch
before = {name for name in sys.modules if name.startswith(("torch", "sympy"))}
import gradscope
with gradscope.record(level="values", on="torch"):
    after = {name for name in sys.modules if name.startswith(("torch", "sympy"))}
print(sorted(after - before))
"""
    )

    ran = house.python("script.py")

    assert (ran.out, ran.code) == ("[]\n", 0)


def test_a_graph_of_any_depth_is_looked_at_and_what_is_not_kept_is_counted() -> None:
    import torch

    import gradscope
    from gradscope.watch.values.ring import CAPACITY

    many = CAPACITY + 1000
    with gradscope.record(level="values", on="torch") as recording:
        x = torch.ones(1, requires_grad=True)
        for _ in range(many):
            x = x.neg()
        assert recording.session is not None
        x.backward()
        del x
        unseen = recording.session.source.unseen()

    (lost,) = [
        number for text, number in unseen.items() if text.startswith("values of tensors, because")
    ]
    assert 2000 <= lost <= 2100
    rows = recording.trace().table(Value)["place"].tolist()
    assert rows.count(Place.NODE_INPUT) > CAPACITY - 100


NORMALISED = """\
import torch

def standardised(table):
    return (table - table.mean(0)) / table.std(0)

table = torch.arange(12.0).reshape(6, 2)
table[:, 1] = 1.0
data = standardised(table)
layer = torch.nn.Linear(2, 1)
shown = data.abs().sum()
for _ in range(2):
    layer(data * 2).mean().backward()
"""


def test_a_nan_of_data_is_named_by_the_line_that_divided_and_once() -> None:
    assert births(NORMALISED)[:1] == [("NaN first seen in the forward call div", "faulty.py:4")]
    assert "faulty.py:11" not in [place for _, place in births(NORMALISED)]


MASKED = """\
import torch

mask = torch.tensor([1.0, 0.0, 1.0])
x = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
for _ in range(2):
    (x + torch.log(mask)).softmax(0)[0].backward()
"""


def test_a_mask_of_logarithms_of_zero_is_nobody_s_fault() -> None:
    assert births(MASKED) == []


def test_calls_without_a_node_are_told_only_where_their_result_is_not_finite() -> None:
    def program() -> list[Any]:
        import torch

        data = torch.tensor([1.0, 0.0])
        kept = [data.log(), data * 2, data.sum()]
        (torch.ones(2, requires_grad=True) * data).sum().backward()
        return kept

    _, trace = watched(program, "values")
    alone = [(row.name, row.node) for row in trace.rows(Op) if row.node == NONE]
    assert alone == [("log", NONE)]
    (value,) = [row for row in trace.rows(Value) if row.neginf]
    assert (value.count, value.bad, Place(value.place).name) == (2, (1,), "OP_OUTPUT")
    assert check(trace) == []


def test_a_backward_that_begins_while_notes_are_written_keeps_what_it_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Notes are written from a thread, and the program does not wait for it."""
    import torch

    from gradscope.record.from_pytorch.graphs import PyTorchGraphs

    arrived, go_on = Event(), Event()

    def halfway(grad: Any) -> None:
        arrived.set()
        assert go_on.wait(20)

    def program() -> None:
        w = torch.ones(3, requires_grad=True)
        doubled = w * 2
        doubled.register_hook(halfway)
        loss = doubled.sin().sum()
        runs = Thread(target=loss.backward)
        written = PyTorchGraphs.flush

        def begins_meanwhile(graphs: PyTorchGraphs) -> None:
            runs.start()
            assert arrived.wait(20)
            written(graphs)

        with monkeypatch.context() as patched:
            patched.setattr(PyTorchGraphs, "flush", begins_meanwhile)
            flush()
        go_on.set()
        runs.join()

    _, trace = watched(program, "values")

    assert looked_at(trace)["NODE_INPUT"] == 4
