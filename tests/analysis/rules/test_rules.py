from __future__ import annotations

import pytest

from gradscope.analysis.findings import Certainty, Evidence, Finding, Severity
from gradscope.analysis.identity.sites import Site
from gradscope.analysis.report import Unchecked, inspect
from gradscope.analysis.rules import all_rules
from gradscope.errors import UnknownNameError
from gradscope.trace.schema import (
    NONE,
    Accumulate,
    Edge,
    Error,
    Finding as Recorded,
    Frame,
    GraphTask,
    HookBegin,
    HookEnd,
    Meta,
    Node,
    Op,
    Phase,
    Place,
    Saved,
    Source,
    Stack,
    Storage,
    Tensor,
    Value,
    Version,
)
from gradscope.trace.schema.declare import Row
from gradscope.trace.schema.tables import Order
from gradscope.trace.trace import Trace
from tests.shared.by_hand import trace_of
from tests.shared.example_traces import mean_of_squares, nan_in_backward

VALUES = {"level": "values"}
SOURCE = Source(id=0, file="ex.py", text="pass")


def messages(trace: Trace) -> list[str]:
    return [finding.message for finding in inspect(trace).findings]


# Births --------------------------------------------------------------------------------------


def test_a_birth_is_told_with_its_line_its_reason_and_its_remedy() -> None:
    (first,) = inspect(nan_in_backward()).findings

    assert first == Finding(
        rule="GS201",
        slug="non-finite-birth",
        severity=Severity.ERROR,
        message="Inf first produced in the backward of SqrtBackward0 (nan.py:5): 1 of 3 elements "
        "is +Inf, first at flat index 0",
        site=Site("nan.py:5", "r = s.sqrt()"),
        evidence=(
            Evidence("value", 7),
            Evidence("node", 2),
            Evidence("event", 13),
            Evidence("value", 9),
        ),
        why="the derivative of sqrt is 1/(2·√x), which is Inf at 0; what followed from it: "
        "NaN (produced from an Inf) in the backward of PowBackward0 at nan.py:4",
        fix="write `r = s.clamp_min(1e-12).sqrt()` instead of `r = s.sqrt()`",
        certainty=Certainty.CERTAIN,
    )


LINE, MORE = "(train.py:5)", "the same again in 1 later run"


def in_a_loop(*rows: Row) -> Trace:
    """What two steps did in line 5 of train.py."""
    frame = Frame(0, "train.py", 5, "<module>", "loss = (x / y).log()")
    return trace_of(frame, Stack(0, 0), *rows, meta=VALUES)


def test_the_same_place_in_every_step_is_told_once() -> None:
    trace = in_a_loop(
        *(Op(step, "log.default", outputs=(step,), stack=0) for step in range(3)),
        *(Value(step, Place.OP_OUTPUT, op=step, nan=1, count=1, t=step) for step in range(3)),
        *(Node(step, "LogBackward0", stack=0) for step in range(2)),
        *(Value(3 + s, Place.NODE_OUTPUT, node=s, nan=1, count=1, t=3 + s) for s in range(2)),
    )

    (found,) = inspect(trace, rules=["GS201"]).findings
    assert found.message == (
        "NaN first produced in the forward call log (train.py:5): the only element is NaN; the "
        "same again in 2 later runs"
    )
    assert found.why.endswith(
        "; what followed from it: NaN in the backward of LogBackward0#1 (the same line)"
    )


def test_layers_and_parameters_that_share_a_line_are_one_finding_the_first_birth() -> None:
    trace = in_a_loop(
        *(Tensor(id, name=f"layer{id}.weight", leaf=True) for id in range(2)),
        *(Op(id, "mm.default", stack=0, module=id) for id in range(2)),
        *(
            Op(2 + id, "add_.alpha", outputs=(id,), stack=0, phase=Phase.OPTIMIZER)
            for id in range(2)
        ),
        *(Value(id, Place.OP_OUTPUT, op=id, posinf=1, count=1, t=id) for id in range(2)),
        *(
            Value(2 + id, Place.OP_OUTPUT, op=2 + id, tensor=id, posinf=1, count=1, t=2 + id)
            for id in range(2)
        ),
    )

    assert messages(trace) == [
        "Inf first produced in the forward call mm (train.py:5): the only element is +Inf",
    ]


@pytest.mark.parametrize(
    ("phase", "words", "why"),
    [
        (Phase.FORWARD, "in the forward call addcdiv_", "its operands were finite"),
        (Phase.BACKWARD, "in the call addcdiv_ during a backward", "its operands were finite"),
        (Phase.OPTIMIZER, "in the optimizer's call addcdiv_ on w", "the step divides 0 by 0"),
    ],
)
def test_who_called_is_told(phase: Phase, words: str, why: str) -> None:
    trace = trace_of(
        Tensor(0, name="w", leaf=True),
        Op(0, "addcdiv_.default", outputs=(0,), phase=phase),
        Value(0, Place.OP_OUTPUT, op=0, tensor=0, nan=1, count=1),
        meta=VALUES,
    )

    (finding,) = inspect(trace).findings

    assert finding.message.startswith(f"NaN first produced {words}: ")
    assert finding.why.startswith(why)


def test_data_without_a_name_is_told_once_with_the_line_that_used_it_first() -> None:
    trace = in_a_loop(
        *(Tensor(batch, leaf=True) for batch in range(2)),
        Op(0, "neg.default", inputs=(0,), begin=5),
        Op(1, "abs.default", inputs=(0,), begin=3, stack=0),
        Op(2, "abs.default", inputs=(1,), begin=4, stack=0),
        *(Value(id, Place.LEAF, tensor=id, nan=1, count=1, t=id) for id in range(2)),
    )

    assert messages(trace) == [
        (
            f"NaN first produced outside the graph: leaf 0 already held it {LINE}: the only "
            f"element is NaN; {MORE}"
        )
    ]


@pytest.mark.parametrize(
    ("op", "reason"),
    [
        ("_softmax.default", "every element was −Inf, as when a whole row is masked"),
        ("log_softmax.default", "every element was −Inf, as when a whole row is masked"),
        ("sub.default", "an earlier Inf met a zero"),
    ],
)
def test_a_nan_out_of_inf_has_the_reason_of_its_function(op: str, reason: str) -> None:
    trace = trace_of(
        Op(0, "masked_fill.Scalar", outputs=(1,)),
        Op(1, op, inputs=(1,), outputs=(2,)),
        Value(0, Place.OP_OUTPUT, op=0, tensor=1, neginf=3, count=3),
        Value(1, Place.OP_OUTPUT, op=1, tensor=2, nan=3, count=3, t=1),
        meta=VALUES,
    )

    (finding,) = inspect(trace).findings

    assert finding.why.startswith(reason)


@pytest.mark.parametrize(
    ("op", "nan", "reason"),
    [
        ("pow.Tensor_Scalar", 0, "the power is beyond the range of the dtype"),
        ("pow.Tensor_Scalar", 1, "a negative number to a fractional power is NaN"),
        ("addmm.default", 0, "the products add up beyond the range of the dtype"),
        ("linalg_vector_norm.default", 0, "the squares add up beyond the range"),
    ],
)
def test_an_overflow_is_called_one(op: str, nan: int, reason: str) -> None:
    value = Value(0, Place.OP_OUTPUT, op=0, count=1, nan=nan, posinf=1 - nan)
    trace = trace_of(Op(0, op), value, meta=VALUES)

    (finding,) = inspect(trace).findings

    assert finding.why.startswith(reason)


def test_an_inf_that_the_program_wrote_is_no_finding() -> None:
    """Attention masks its scores with −Inf, on purpose."""
    trace = trace_of(
        Op(0, "masked_fill.Scalar", inputs=(0,), outputs=(1,)),
        Value(0, Place.OP_OUTPUT, op=0, tensor=1, neginf=3, count=4),
        meta=VALUES,
    )

    assert messages(trace) == []


def test_an_inf_in_the_data_is_a_note_and_a_nan_an_error() -> None:
    trace = trace_of(
        Tensor(0, name="mask", leaf=True),
        Tensor(1, name="x", leaf=True),
        Value(0, Place.LEAF, tensor=0, neginf=2, count=2, bad=(0, 1)),
        Value(1, Place.LEAF, tensor=1, nan=1, count=2, t=1),
        meta=VALUES,
    )

    assert [(f.severity, f.message) for f in inspect(trace).findings] == [
        (
            Severity.ERROR,
            "NaN first produced outside the graph: x already held it: 1 of 2 elements is NaN",
        ),
        (
            Severity.NOTE,
            (
                "Inf first produced outside the graph: mask already held it: all 2 elements are "
                "−Inf, first at flat index 0"
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (Place.BUFFER, "in the sum of the gradients that arrive at input 0 of MulBackward0"),
        (Place.HOOK, "in the hook clip on MulBackward0 (hooks.py:3)"),
        (Place.GRAD, "in the accumulation into `.grad` of w (train.py:9)"),
        (Place.SEED, "in the gradient that was passed to backward (train.py:9)"),
        (Place.NODE_INPUT, "on the way to MulBackward0"),
        (Place.NODE_OUTPUT, "in the backward of MulBackward0"),
    ],
)
def test_every_place_of_a_birth_has_its_words(place: Place, words: str) -> None:
    trace = trace_of(
        Frame(0, "train.py", 9, "<module>", "loss.backward()"),
        Frame(1, "hooks.py", 3, "<module>", "w.register_hook(clip)"),
        Stack(0, 0),
        Stack(1, 1),
        Tensor(3, name="w", leaf=True),
        Node(0, "MulBackward0"),
        GraphTask(0, stack=0),
        HookBegin(task=0, node=0, name="clip", stack=1),
        HookEnd(task=0, node=0),
        Accumulate(task=0, node=0, tensor=3),
        Value(0, place, node=0, task=0, tensor=3, seq=1, nan=1, count=1),
        meta=VALUES,
    )

    (message,) = messages(trace)

    assert message.startswith(f"NaN first produced {words}")


# Exceptions ----------------------------------------------------------------------------------


def test_an_exception_names_its_node_and_who_called_backward() -> None:
    trace = trace_of(
        Frame(0, "train.py", 4, "<module>", "y = x.exp()"),
        Frame(1, "train.py", 9, "<module>", "y.backward()"),
        Stack(0, 0),
        Stack(1, 1),
        Node(0, "ExpBackward0", stack=0),
        GraphTask(0, stack=1),
        Error(task=0, node=0, type="RuntimeError", message="modified in place\nand so on"),
    )

    (found,) = inspect(trace).findings

    assert found.message == (
        "ExpBackward0, created at train.py:4, raised RuntimeError: modified in place"
    )
    assert found.site == Site("train.py:4", "y = x.exp()")
    assert found.why == "the backward called at train.py:9 reached it"
    assert found.evidence == (Evidence("event", 0), Evidence("node", 0), Evidence("graph_task", 0))


def test_an_exception_that_passes_through_nested_backwards_is_told_once() -> None:
    trace = trace_of(
        Error(task=1, type="ValueError", message="no"),
        Error(task=0, type="ValueError", message="no"),
        Recorded(0, kind="exception", message="ValueError: no"),
    )

    assert messages(trace) == ["a backward raised ValueError: no"]


def test_an_exception_outside_of_backward_is_told_too() -> None:
    trace = trace_of(
        Frame(0, "train.py", 4, "<module>", "1 / 0"),
        Stack(0, 0),
        Recorded(0, kind="exception", message="ZeroDivisionError: division by zero", stack=0),
        Recorded(1, kind="nan", message="told by another rule"),
    )

    assert messages(trace) == [
        "The program raised ZeroDivisionError: division by zero at train.py:4"
    ]


def caught(*rows: Row) -> Trace:
    return trace_of(
        Node(0, "ExpBackward0"),
        Error(task=0, node=0, type="RuntimeError", message="no"),
        *rows,
        meta={"exit": "ok", "level": "engine"},
    )


def test_an_exception_that_the_program_caught_is_a_note() -> None:
    (found,) = inspect(caught()).findings

    assert found.severity is Severity.NOTE
    assert found.message == "ExpBackward0 raised RuntimeError: no, and the program went on"


@pytest.mark.parametrize(
    ("type", "message", "exit"),
    [
        ("Stopped", "4", "stopped by --stop-on"),
        ("SystemExit", "3", "exit code 3"),
        ("SystemExit", "", "ok"),
        ("KeyboardInterrupt", "", "interrupted (KeyboardInterrupt)"),
    ],
)
def test_an_end_that_was_meant_is_no_finding(type: str, message: str, exit: str) -> None:
    def ended(words: str) -> Trace:
        error = Error(task=0, type=type, message=message)
        return trace_of(error, meta={"exit": words, "level": "engine"})

    assert inspect(ended(exit)).findings == ()
    assert type == "Stopped" or inspect(ended("exit code 7")).findings


def test_an_exception_that_ended_the_script_is_an_error_whatever_it_caught_before() -> None:
    ended = Recorded(0, kind="exception", message="ValueError: at last")
    trace = caught(Error(task=0, node=0, type="ValueError", message="at last"), ended)

    assert [(f.severity, f.message) for f in inspect(trace).findings] == [
        (Severity.ERROR, "ExpBackward0 raised ValueError: at last"),
        (Severity.NOTE, "ExpBackward0 raised RuntimeError: no, and the program went on"),
    ]


def test_a_late_write_that_the_program_survived_is_a_note() -> None:
    rows = (
        Saved(0, node=0, slot="result", tensor=1, version=0, t=11),
        Version(1, 1, old=0, new=1, op=1, stack=6, t=20),
        GraphTask(0, roots=(0,), stack=9, begin=30),
        Error(t=40, task=0, node=0, type="RuntimeError", message=MODIFIED),
        Meta("exit", '"ok"'),
    )

    (found,) = inspect(a_program(*rows)).findings

    assert (found.rule, found.severity) == ("GS302", Severity.NOTE)
    assert found.message.endswith(", and the program went on")


def a_program(*rows: Row) -> Trace:
    """`y = x.exp()`, then some rows, about a backward called in line 9 that failed."""
    lines = {3: "y = x.exp()", 5: "y.add_(1)", 6: "z = y * 2", 7: "a.backward()", 9: "z.backward()"}
    return trace_of(
        *(Frame(line, "train.py", line, "<module>", text) for line, text in lines.items()),
        *(Stack(line, line) for line in lines),
        Storage(1),
        Tensor(1, storage=1),
        Op(0, "exp.default", outputs=(1,), node=0, stack=3),
        Node(0, "ExpBackward0", op=0, inputs=(1,), stack=3, t=10),
        *rows,
    )


MODIFIED = (
    "one of the variables needed for gradient computation has been modified by an inplace "
    "operation: …"
)
FREED = "Trying to backward through the graph a second time (or …"


def test_who_wrote_to_a_saved_value_is_told_with_the_line_and_the_version() -> None:
    trace = a_program(
        Saved(0, node=0, slot="result", tensor=1, version=1, t=11),
        Op(1, "mul_.Tensor", inputs=(1,), outputs=(1,), stack=6),
        Op(2, "add_.Tensor", inputs=(1,), outputs=(1,), stack=5),
        Version(1, 1, old=0, new=1, op=1, stack=6, t=9),
        Version(1, 1, old=1, new=2, op=2, stack=5, t=20),
        Version(1, 1, old=2, new=3, op=1, stack=6, t=21),
        Version(1, 1, old=3, new=4, op=1, stack=6, t=99),
        GraphTask(0, roots=(0,), stack=9, begin=30),
        Error(seq=1, t=40, task=0, node=0, type="RuntimeError", message=MODIFIED),
        Error(seq=2, t=41, task=0, node=0, type="RuntimeError", message=MODIFIED),
    )

    (found,) = inspect(trace).findings

    assert (found.rule, found.site) == ("GS302", Site("train.py:5", "y.add_(1)"))
    assert found.message == (
        "add_ at train.py:5 wrote in place to 'result' of ExpBackward0 (created at train.py:3), "
        "which backward needed unchanged: saved at version 1, now 2, and 1 more after it"
    )
    assert "called at train.py:9" in found.why
    assert Evidence("op", 2) in found.evidence


def test_who_released_a_node_is_told_and_the_line_that_led_back_to_it() -> None:
    trace = a_program(
        GraphTask(0, roots=(0,), stack=7, begin=20),
        Saved(0, node=0, slot="result", tensor=1, t=11, released=25, task=0),
        Node(1, "MulBackward0", stack=6, t=30),
        Edge(1, 0, 0, 0),
        GraphTask(1, roots=(1,), stack=9, begin=40),
        Error(seq=1, t=50, task=1, node=0, type="RuntimeError", message=FREED),
    )

    (found,) = inspect(trace).findings

    assert (found.rule, found.site) == ("GS303", Site("train.py:6", "z = y * 2"))
    assert found.message == (
        "The tensors saved by ExpBackward0 (created at train.py:3) were freed by the backward "
        "called at train.py:7, and a second backward needed them"
    )
    assert "called at train.py:9 reached it again through MulBackward0 (created at" in found.why
    assert found.fix.startswith("detach()")


def test_a_graph_that_was_walked_twice_is_told_where_it_was_the_second_time() -> None:
    trace = a_program(
        GraphTask(0, roots=(0,), stack=7, begin=20),
        Saved(0, node=0, slot="result", tensor=1, t=11, released=25, task=0),
        GraphTask(1, roots=(0,), stack=9, begin=40),
        Error(seq=1, t=50, task=1, node=0, type="RuntimeError", message=FREED),
    )

    (found,) = inspect(trace).findings

    assert (found.rule, found.site) == ("GS303", Site("train.py:9", "z.backward()"))
    assert found.fix.startswith("call the first backward with retain_graph=True")


def test_what_is_not_known_is_left_to_the_exception() -> None:
    trace = a_program(
        GraphTask(0, roots=(0,), stack=9),
        Error(seq=1, task=0, node=0, type="RuntimeError", message=MODIFIED),
        Error(seq=2, task=0, node=0, type="RuntimeError", message=FREED),
    )

    assert [finding.rule for finding in inspect(trace).findings] == ["GS301", "GS301"]


def test_an_exception_that_explains_itself_lends_its_words_to_the_finding() -> None:
    said = "hook 'f' has changed the size of value\nThe hook f is at a.py:1.\nDo. See "
    trace = a_program(
        GraphTask(0, roots=(0,), stack=9),
        Error(task=0, node=0, type="RuntimeError", message=f"{said}docs/engine/errors.md#x"),
    )

    (found,) = inspect(trace).findings

    assert found.message.endswith("raised RuntimeError: hook 'f' has changed the size of value")
    assert found.why == "The hook f is at a.py:1."
    assert found.fix == "Do. See docs/engine/errors.md#x"


# The recording -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("note", "truncated", "severity", "message"),
    [
        (
            "truncated: 3 events recovered, 9 bytes lost",
            True,
            Severity.WARNING,
            "The trace is incomplete: truncated: 3 events recovered, 9 bytes lost",
        ),
        (
            "dropped: 5 rows were not recorded (op 5)",
            False,
            Severity.WARNING,
            "The trace is incomplete: dropped: 5 rows were not recorded (op 5)",
        ),
        (
            "written by a newer gradscope (version 1.9, this one knows 1.0)",
            False,
            Severity.NOTE,
            "The file is written by a newer gradscope (version 1.9, this one knows 1.0)",
        ),
    ],
)
def test_what_is_missing_in_a_trace_is_a_finding(
    note: str, truncated: bool, severity: Severity, message: str
) -> None:
    trace = trace_of()
    trace.notes = (note,)
    trace.truncated = truncated

    (found,) = inspect(trace).findings

    assert (found.rule, found.severity, found.message) == ("GS101", severity, message)


def test_what_nobody_could_see_is_no_damage_of_the_file() -> None:
    trace = trace_of()
    trace.notes = ("not recorded: values of tensors that are not plain CPU tensors",)

    (found,) = inspect(trace).findings

    assert found.message.startswith("Not recorded: values of tensors")
    assert "changed after" not in found.why
    assert "newer" not in found.fix


# The registry --------------------------------------------------------------------------------


def test_findings_come_worst_first() -> None:
    trace = nan_in_backward()
    trace.notes = ("dropped: 1 rows were not recorded (op 1)",)

    assert [finding.rule for finding in inspect(trace).findings] == ["GS201", "GS101"]


def test_a_level_too_low_is_said_and_never_sold_as_clean() -> None:
    report = inspect(mean_of_squares())

    assert report.findings == ()
    rules = [rule for rule in all_rules() if rule.always]
    too_high = [rule for rule in rules if rule.needs in ("values", "full")]
    by_text = [rule for rule in rules if "source" in rule.reads]
    away = {each.id for each in (*too_high, *by_text)}
    assert set(report.checked) == {rule.id for rule in rules} - away
    command = "gradscope trace --level values ex.py"
    assert tuple(each for each in report.unchecked if not each.lacks) == tuple(
        Unchecked(r.id, r.slug, r.needs, (), command) for r in too_high
    )
    assert {each.rule for each in report.unchecked if each.lacks} == {r.id for r in by_text}
    assert report.unchecked[0] == Unchecked("GS201", "non-finite-birth", "values", (), command)
    assert {each.rule for each in report.partly} == {r.id for r in rules if r.fully}


def test_numbers_that_could_not_be_read_at_their_level_are_not_sold_as_looked_at() -> None:
    trace = nan_in_backward()
    trace.meta["absent"] = ["value"]

    report = inspect(trace)

    fully = {rule.id for rule in all_rules() if rule.fully and rule.always}
    assert fully <= {each.rule for each in report.unchecked if each.lacks == ("value",)}
    assert report.partly == ()


def test_rules_are_chosen_and_ignored_by_id_or_slug() -> None:
    trace = nan_in_backward()

    assert inspect(trace, rules=["exception"]).checked == ("GS301",)
    assert inspect(trace, rules=["gs201"]).checked == ("GS201",)
    left = inspect(trace, ignore=["GS201", "exception", "GS302"]).checked
    assert set(inspect(trace).checked) - set(left) == {"GS201", "GS301", "GS302"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rules": ["GS999"]}, "no rule 'GS999'; `gradscope inspect --explain all` lists every"),
        ({"ignore": ["nan"]}, r"no rule 'nan'; near it: GS201 \(non-finite-birth\), "),
        ({"ignore": ["grpah-cut"]}, r"no rule 'grpah-cut'; near it: GS401 \(graph-cut\)"),
    ],
)
def test_a_rule_that_does_not_exist_is_answered_with_those_near_it(
    options: dict[str, list[str]], words: str
) -> None:
    with pytest.raises(UnknownNameError, match=words):
        inspect(mean_of_squares(), **options)


def test_no_two_rules_share_a_slug() -> None:
    slugs = [rule.slug for rule in all_rules()]

    assert sorted(set(slugs)) == sorted(slugs)


# What PyTorch did otherwise ------------------------------------------------------------------


def test_an_order_that_is_not_foretold_is_told_with_both_nodes() -> None:
    trace = trace_of(
        Meta("level", '"engine"'),
        Frame(0, "train.py", 3, "f", "y = x.exp()"),
        Frame(1, "train.py", 4, "f", "loss.backward()"),
        Stack(0, 0),
        Stack(1, 1),
        Node(0, "ExpBackward0", 4, stack=0),
        Node(1, "SinBackward0", 5, stack=0),
        GraphTask(0, roots=(1,), stack=1, order=int(Order.OTHERWISE), otherwise=(0, 1)),
        GraphTask(1, roots=(1,), stack=1, order=int(Order.OTHERWISE), otherwise=(NONE, 1)),
        GraphTask(2, roots=(1,), stack=1, order=int(Order.FORETOLD)),
    )

    sin = "before SinBackward0 (created at train.py:3); its scheduling rules predict the reverse"
    assert messages(trace) == [
        f"PyTorch ran ExpBackward0 (created at train.py:3) {sin}",
        f"PyTorch ran an AccumulateGrad {sin}",
    ]
    assert {f.site.place for f in inspect(trace).findings} == {"train.py:4"}


def test_a_rule_that_reads_what_nobody_could_see_is_not_checked() -> None:
    absent = Meta("absent", '["version", "saved_released"]')
    trace = trace_of(Meta("level", '"engine"'), absent, SOURCE)

    lacks = {each.rule: each.lacks for each in inspect(trace).unchecked}

    named = {id: names for id, names in lacks.items() if names}
    assert named == {
        "GS302": ("version",),
        "GS303": ("saved_released",),
        "GS404": ("version",),
    }
    assert lacks["GS201"] == ()


@pytest.mark.parametrize("name", ["mean", "_softmax", "_log_softmax"])
def test_a_call_of_which_no_tensor_was_recorded_is_passed_over(name: str) -> None:
    """As at level full on PyTorch: of calls that made no node only the name is known."""
    bare = trace_of(Op(0, name, stack=0), Op(1, name, stack=0), meta={"level": "full"})

    assert inspect(bare).findings == ()


def test_rules_about_loops_say_which_steps_they_would_need() -> None:
    later = trace_of(
        Meta("level", '"values"'),
        Meta("unwanted", '{"steps": 3}'),
        GraphTask(id=0, step=2),
        SOURCE,
    )
    holes = trace_of(Meta("level", '"values"'), Meta("dropped", '{"accumulate": 3}'), SOURCE)

    assert {each.rule: each.lacks for each in inspect(later).unchecked} == {
        "GS503": ("the first steps",),
        "GS506": ("the first steps",),
        "GS521": ("the first steps",),
    }
    of_loops = {f"GS50{number}" for number in range(1, 9)} | {"GS510", "GS521"}
    of_loops |= {f"GS51{number}" for number in range(6, 10)}
    assert {each.rule: each.lacks for each in inspect(holes).unchecked} == dict.fromkeys(
        of_loops, ("all rows",)
    )
