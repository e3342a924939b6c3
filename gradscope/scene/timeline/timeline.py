"""A backward over time: what each thread ran, the length of its queue, waits of nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gradscope.analysis.identity.backwards import backward_numbered, backward_numbers, backwards
from gradscope.analysis.identity.steps import step_ids
from gradscope.analysis.ranks.heat import rank_steps
from gradscope.analysis.ranks.waits import rank_waits
from gradscope.analysis.timing.buckets import BucketRun, Buckets
from gradscope.analysis.timing.own_work import OwnWork
from gradscope.analysis.timing.schedule import Execution, HookCall, Schedule, schedule
from gradscope.errors import EmptyTraceError
from gradscope.scene.choices import RankHeat, SortBy
from gradscope.scene.graph.backwards import title_of
from gradscope.scene.kinds import NodeKind, kind_of
from gradscope.scene.readable import ACCUMULATED, byte_count, count, duration, plural
from gradscope.scene.table_scenes import TableScene
from gradscope.scene.timeline.lanes import Bar, LaneKind, LevelAt, TimeLane
from gradscope.scene.timeline.program import ProgramTimeline, program_timeline
from gradscope.scene.timeline.rank_heat import HeatScene, heat_scene
from gradscope.scene.timeline.rank_lanes import RankLanes, rank_lanes
from gradscope.scene.timeline.steps import step_table
from gradscope.scene.timeline.timeline_rows import TimelineRow, rows_of
from gradscope.scene.timeline.waits import wait_table
from gradscope.trace.schema import NONE, GraphTask, Node, NodeBegin, Thread
from gradscope.trace.trace import Trace

MOST_RANKS = 14
"""Rows of the table of ranks and steps, which fits on a screen."""
NO_ENGINE = "this trace holds no events of the engine; record it with --level engine"


@dataclass(frozen=True, slots=True)
class TaskTimeline:
    """One backward."""

    number: int
    title: str
    call: str  # the text of the line that called it
    facts: str
    begin: int
    end: int
    lanes: tuple[TimeLane, ...]
    rows: tuple[TimelineRow, ...]
    notes: tuple[str, ...]  # what is not shown
    errors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TimelineScene:
    """Some backwards, listed one after the other."""

    tasks: tuple[TaskTimeline, ...]
    notes: tuple[str, ...]
    program: ProgramTimeline | None = None  # spans and marks of the program, if any
    steps: TableScene | None = None  # where there are several
    waits: TableScene | None = None  # between the ranks of a merged trace
    ranks: HeatScene | None = None  # of a merged trace, instead of its steps
    rank_lanes: RankLanes | None = None  # of a step of a merged trace


@dataclass(frozen=True, slots=True)
class TimelineOptions:
    """Which backwards to show, and how much of each."""

    step: int | None = None
    task: int | None = None  # the backward's number
    rows: int = 40  # nodes of each backward; 0 for all
    tasks: int = 3  # backwards; 0 for all
    sort: SortBy = SortBy.ORDER
    columns: int = 60  # of the table of ranks and steps


def timeline_scene(trace: Trace, options: TimelineOptions | None = None) -> TimelineScene:
    """The timeline of the selected backwards, or of the first ones."""
    options = options or TimelineOptions()
    chosen = _chosen(trace, options)
    program = program_timeline(trace, step=options.step, task=options.task, rows=options.rows)
    is_whole = options.task is None and options.step is None
    ranks = _ranks(trace, options) if is_whole and options.rows else None
    steps = None
    if options.task is None and ranks is None:
        steps = step_table(trace, options.step, options.rows)
    waits = _waits(trace, options)
    lanes = None
    if options.step is not None and options.task is None:
        lanes = rank_lanes(trace, options.step)
    if (program or steps or ranks) and not (chosen and len(trace.table(NodeBegin))):
        note = NO_ENGINE if chosen else "no backward was recorded"
        return TimelineScene((), (note,), program, steps, waits, ranks, lanes)
    if not chosen:
        raise EmptyTraceError("this trace holds no backward to show")
    if not len(trace.table(NodeBegin)):
        raise EmptyTraceError(NO_ENGINE)
    shown = chosen[: options.tasks] if options.tasks else chosen
    note = (
        f"showing {count(len(shown))} of {count(len(chosen))} backwards; choose with --task N or "
        "--step N, or show --all"
    )
    notes = (note,) if len(shown) < len(chosen) else ()
    numbers = backward_numbers(trace)
    return TimelineScene(
        tuple(_timeline(trace, schedule(trace, task), numbers, options) for task in shown),
        notes,
        program,
        steps,
        waits,
        ranks,
        lanes,
    )


def _ranks(trace: Trace, options: TimelineOptions) -> HeatScene | None:
    found = trace.once(rank_steps)
    return None if found is None else heat_scene(found, RankHeat.TIME, options.columns, MOST_RANKS)


def _waits(trace: Trace, options: TimelineOptions) -> TableScene | None:
    """The waits between ranks, in all steps or in one."""
    found = trace.once(rank_waits)
    if options.step is not None:
        own = tuple(wait for wait in found.waits if wait.step == options.step)
        found = replace(found, waits=own)
    return wait_table(found, options.rows) if found.waits and options.task is None else None


def _chosen(trace: Trace, options: TimelineOptions) -> Sequence[GraphTask]:
    if options.task is not None:
        return (backward_numbered(trace, options.task),)
    return backwards(trace, None if options.step is None else step_ids(trace, options.step))


def _timeline(
    trace: Trace,
    facts: Schedule,
    numbers: Mapping[int, int],
    options: TimelineOptions,
) -> TaskTimeline:
    rows = rows_of(trace, facts.executions, options.sort, options.rows)
    notes = []
    if len(rows) < len(facts.executions):
        total = count(len(facts.executions))
        by_time = options.sort is SortBy.TIME
        which = f"the {len(rows)} slowest" if by_time else f"the first {len(rows)}"
        notes.append(f"showing {which} of {total} nodes; --rows N for more")
    if facts.own_work:
        notes.append(_own_work_note(facts))
    notes += _bucket_notes(trace, facts)
    return TaskTimeline(
        number=numbers[facts.task.id],
        title=title_of(trace, facts.task, numbers),
        call=facts.site.text,
        facts=_facts(facts),
        begin=facts.begin,
        end=max(facts.end, facts.begin + 1),
        lanes=tuple(_lanes(trace, facts)),
        rows=rows,
        notes=tuple(notes),
        errors=tuple(f"raised {error.type}: {error.message}" for error in facts.errors),
    )


def _facts(facts: Schedule) -> str:
    task = facts.task
    took = duration(facts.ns)
    parts = [f"{plural(len(facts.executions), 'node')} in {took}"]
    if task.end == NONE:
        parts.append("did not end")
    if facts.skipped:
        parts.append(f"{plural(len(facts.skipped), 'node')} not needed for inputs=")
    for flag, words in ((task.keep_graph, "retain_graph"), (task.create_graph, "create_graph")):
        if flag:
            parts.append(words)
    return ", ".join(parts)


# Lanes ---------------------------------------------------------------------------------------


def _lanes(trace: Trace, facts: Schedule) -> list[TimeLane]:
    names = {thread.id: thread.name or f"thread {thread.id}" for thread in trace.rows(Thread)}
    threads = dict.fromkeys(
        [facts.task.thread, *(run.thread for run in facts.executions)]
        if facts.sleeps
        else [run.thread for run in facts.executions]
    )
    lanes = []
    for thread in threads:
        name = names.get(thread, f"thread {thread}")
        runs = [run for run in facts.executions if run.thread == thread]
        lanes.append(_run_lane(trace, thread, name, runs, facts))
        queues = dict.fromkeys(run.queue for run in runs if run.queue != NONE)
        lanes += [_queue_lane(facts, queue) for queue in queues]
        hooks = [call for call in facts.hooks if call.thread == thread]
        if hooks:
            lanes.append(_hook_lane(hooks))
        if any(each.thread == thread for each in facts.accumulated):
            lanes.append(_accumulate_lane(facts, thread))
        own = [each for each in facts.own_work if each.thread == thread]
        if own:
            lanes.append(_own_work_lane(own, facts))
    return lanes + [_bucket_lane(each, facts) for each in trace.once(Buckets).of(facts.task.id)]


def _run_lane(
    trace: Trace, thread: int, name: str, runs: list[Execution], facts: Schedule
) -> TimeLane:
    kinds = trace.once(_kinds)
    spans = tuple(
        Bar(run.begin, _end(run.end, facts), kinds.get(run.node, NodeKind.OTHER), run.failed)
        for run in runs
    )
    busy = sum(run.self_ns for run in runs if run.self_ns != NONE)
    share = busy / max(facts.ns, 1)
    words = f"busy {duration(busy)} ({share:.0%})"
    asleep = tuple(
        Bar(each.begin, each.end, NodeKind.OTHER) for each in facts.sleeps if each.thread == thread
    )
    return TimeLane(LaneKind.RUN, name, spans, (), words, asleep)


def _kinds(trace: Trace) -> dict[int, NodeKind]:
    nodes = trace.table(Node)
    names = dict.fromkeys(nodes["name"].tolist())
    kind_of_name = {name: kind_of(trace.text(name)) for name in names}
    ids, texts = nodes["id"].tolist(), nodes["name"].tolist()
    return {id: kind_of_name[text] for id, text in zip(ids, texts, strict=True)}


def _queue_lane(facts: Schedule, queue: int) -> TimeLane:
    levels = tuple(LevelAt(each.t, each.length) for each in facts.queue if each.queue == queue)
    most = max((level.value for level in levels), default=0)
    title = f"queue {queue}" if len({each.queue for each in facts.queue}) > 1 else "queue"
    return TimeLane(LaneKind.QUEUE, title, (), levels, f"at most {count(most)} ready")


def _hook_lane(hooks: list[HookCall]) -> TimeLane:
    spans = tuple(Bar(call.begin, max(call.end, call.begin), NodeKind.OTHER) for call in hooks)
    replaced = sum(call.replaced for call in hooks)
    words = plural(len(hooks), "call")
    if replaced:
        words += f", {count(replaced)} replaced"
    return TimeLane(LaneKind.HOOKS, "hooks", spans, (), words)


def _accumulate_lane(facts: Schedule, thread: int) -> TimeLane:
    arrived = [each for each in facts.accumulated if each.thread == thread]
    ways = Counter("unknown" if each.how is None else ACCUMULATED[each.how] for each in arrived)
    parts = [f"{count(number)} {way}" for way, number in ways.items()]
    spans = tuple(Bar(each.t, each.t, NodeKind.LEAF) for each in arrived)
    return TimeLane(LaneKind.ACCUMULATE, ".grad", spans, (), ", ".join(parts))


def _own_work_lane(own: list[OwnWork], facts: Schedule) -> TimeLane:
    spans = tuple(
        Bar(max(each.begin, facts.begin), min(each.end, facts.end), NodeKind.OTHER) for each in own
    )
    took = duration(sum(span.end - span.begin for span in spans))
    return TimeLane(LaneKind.OWN_WORK, "gradscope", spans, (), f"{took}, not counted")


def _bucket_lane(bucket: BucketRun, facts: Schedule) -> TimeLane:
    """The all-reduce of a bucket, and before it the time in which it waited for its turn."""
    begin = facts.end if bucket.begin == NONE else bucket.begin
    turn = Bar(bucket.ready, min(begin, facts.end), NodeKind.OTHER)
    runs = Bar(begin, min(_end(bucket.end, facts), facts.end), NodeKind.OTHER)
    words = f"{plural(len(bucket.parameters), 'parameter')}, {byte_count(bucket.bytes)}"
    if bucket.begin == NONE:
        words += ", reduced by a hook"
    spans = (runs,) if runs.end > runs.begin else ()
    asleep = (turn,) if turn.end > turn.begin else ()
    return TimeLane(LaneKind.BUCKET, f"bucket {bucket.number}", spans, (), words, asleep)


def _bucket_notes(trace: Trace, facts: Schedule) -> list[str]:
    """How much of the communication ran while nodes ran."""
    reduced = [each for each in trace.once(Buckets).of(facts.task.id) if each.end != NONE]
    took = sum(each.end - each.begin for each in reduced)
    if not took or not facts.executions:
        return []
    last = max(_end(run.end, facts) for run in facts.executions)
    beside = sum(each.beside(last) for each in reduced)
    share = f"{beside / took:.0%} of it while nodes ran"
    return [f"all-reduces of {plural(len(reduced), 'bucket')} took {duration(took)}, {share}"]


def _own_work_note(facts: Schedule) -> str:
    longest = max(facts.own_work, key=lambda each: each.end - each.begin)
    others = len(facts.own_work) - 1
    more = f", and {plural(others, 'more such period')}" if others else ""
    took = duration(longest.end - longest.begin)
    return f"{longest.name} here once ({took}){more}; this time is not counted"


def _end(end: int, facts: Schedule) -> int:
    return facts.end if end == NONE else end
