"""Acts of data loaders: which samples each rank was given, and by which sampler.

No method of a data set or sampler of the program is called: only attributes of PyTorch's own
classes are read.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from gradscope.record.acts.stand_ins import StandIn, asked
from gradscope.record.process.ranks import this_process
from gradscope.trace.schema import NONE, BatchAct, LoaderAct, PassAct, SamplerAct, SplitAct
from gradscope.watch.in_place.by_identity import ByIdentity, attributes, is_a

if TYPE_CHECKING:
    from types import FrameType

    from gradscope.record.acts.notes import ActNotes
    from gradscope.record.acts.stand_ins import StandIns

LOADERS, DATA_SETS = "torch.utils.data.dataloader", "torch.utils.data.dataset"
SAMPLERS, PACKAGE = "torch.utils.data.distributed", "torch.utils.data"

MOST = 1024
"""Largest number of samples of a batch that are stored."""

DEEPEST = 8
"""Largest number of Subsets of Subsets."""


class Part(NamedTuple):
    """A part of a data set that was divided."""

    split: int  # the act
    place: int


class LoaderPass:
    """An iterator of a loader, in its present pass."""

    def __init__(self, loader: int, sampler: Any, indices: tuple[Any, ...]) -> None:
        self.loader = loader  # the act
        self.sampler = sampler  # a DistributedSampler, or None
        self.indices = indices  # of the Subsets, from the outermost inwards
        self.act = NONE
        self.drawn = deque[Any]()  # indices of batches that were asked for, and not given yet


class LoaderActs:
    """Replaces functions of data loaders; for one process, only if values are recorded."""

    def __init__(self, acts: ActNotes, stand_ins: StandIns, *, values: bool) -> None:
        self._wanted = values or this_process().is_one_of_several
        self._acts, self._stand_ins = acts, stand_ins
        self._loaders = ByIdentity[int]()
        self._samplers = ByIdentity[int]()
        self._parts = ByIdentity[Part]()
        self._numbers = ByIdentity[int]()  # of data sets
        self._many = 0  # number of data sets
        self._passes = ByIdentity[LoaderPass]()

    def start(self) -> None:
        if not self._wanted:
            return
        homes = [sys.modules.get(name) for name in (LOADERS, DATA_SETS, SAMPLERS)]
        if None not in homes and hasattr(_iterator(homes[0]), "_next_index"):
            self._stand_ins.put(self._functions(*homes))

    def _functions(self, loaders: Any, sets: Any, samplers: Any) -> Iterator[StandIn]:
        self._subset, self._plain = sets.Subset, sets.TensorDataset
        self._divides = samplers.DistributedSampler
        every = _iterator(loaders)
        yield StandIn(loaders.DataLoader, "__init__", self._loader, inside=True, looks=False)
        yield StandIn(self._divides, "__init__", self._sampler, inside=True, looks=False)
        yield StandIn(every, "__init__", self._iterated, inside=True, looks=False)
        yield StandIn(every, "_reset", self._again, inside=True, looks=False, before=True)
        yield StandIn(every, "_next_index", self._drawn, inside=True, looks=False)
        for kind in (loaders._SingleProcessDataLoaderIter, loaders._MultiProcessingDataLoaderIter):
            yield StandIn(kind, "_next_data", self._gave, inside=True, looks=False)
        yield StandIn(sys.modules[PACKAGE], "random_split", self._split, looks=False)

    # -- what was created -------------------------------------------------------------------------

    def _split(self, acts: ActNotes, frame: FrameType, parts: Any, _given: Any, _more: Any) -> None:
        indices = [_plain_indices(attributes(each).get("indices")) for each in parts]
        digest = crc32(array("q", [one for each in indices for one in each or ()]))
        many = tuple(len(each or ()) for each in indices)
        act = acts.note(SplitAct(many=many, digest=NONE if None in indices else digest), frame)
        for index, each in enumerate(parts):
            self._parts[each] = Part(act, index)

    def _sampler(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        own = attributes(given[0])
        number = acts.note(
            SamplerAct(
                replicas=_whole(own.get("num_replicas")), rank=_whole(own.get("rank")),
                seed=_whole(own.get("seed")), shuffle=own.get("shuffle") is True,
                drop_last=own.get("drop_last") is True, total=_whole(own.get("total_size")),
            ),
            frame,
        )  # fmt: skip
        self._samplers[given[0]] = number

    def _loader(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], more: dict[str, Any]
    ) -> None:
        loader = given[0]
        own = attributes(loader)
        data, part, _indices = self._below(own.get("dataset"))
        batches = asked(given, more, 5, "batch_sampler")
        divided = self._dividing(own)
        sampler = own.get("sampler") if batches is None else batches
        act = LoaderAct(
            data=type(data).__name__, many=self._length(data), number=self._number(data),
            split=part.split, part=part.place, sampler=type(sampler).__name__,
            batch=_whole(own.get("batch_size")), workers=_whole(own.get("num_workers")),
        )  # fmt: skip
        of = None if divided is None else self._samplers.get(divided)
        self._loaders[loader] = acts.note(act, frame, of=NONE if of is None else of)

    def _dividing(self, own: dict[str, Any]) -> Any:
        """The DistributedSampler of a loader, also inside of a batch sampler."""
        inside = attributes(own.get("batch_sampler")).get("sampler")
        for each in (own.get("sampler"), own.get("batch_sampler"), inside):
            if each is not None and is_a(each, self._divides):
                return each
        return None

    def _below(self, data: Any) -> tuple[Any, Part, tuple[Any, ...]]:
        """The data set below all Subsets, the part of a split, and the indices of Subsets."""
        part, indices = Part(NONE, NONE), list[Any]()
        while type(data) is self._subset and len(indices) < DEEPEST:
            part = self._parts.get(data) or part
            indices.append(attributes(data).get("indices"))
            data = attributes(data).get("dataset")
        return data, part, tuple(indices)

    def _length(self, data: Any) -> int:
        tensors = attributes(data).get("tensors")
        if type(data) is self._plain and isinstance(tensors, tuple) and tensors:
            return len(tensors[0])
        return len(data) if type(data) in (list, tuple, range) else NONE

    def _number(self, data: Any) -> int:
        number = self._numbers.get(data)
        if number is None and type(data).__weakrefoffset__:
            number, self._many = self._many, self._many + 1
            self._numbers[data] = number
        return NONE if number is None else number

    # -- what was given ---------------------------------------------------------------------------

    def _iterated(
        self, _acts: ActNotes, _frame: FrameType, _: Any, given: tuple[Any, ...], more: Any
    ) -> None:
        iterator, loader = given[0], asked(given, more, 1, "loader")
        number, own = self._loaders.get(loader), attributes(loader)
        if number is None:  # created before the recording
            return
        _, _, indices = self._below(own.get("dataset"))
        known = self._passes.get(iterator)
        begun = LoaderPass(number, self._dividing(own), indices)
        if known is not None:
            begun.drawn = known.drawn
        self._passes[iterator] = begun

    def _again(
        self, _acts: ActNotes, _frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        known = self._passes.get(given[0])
        if known is not None:
            known.act = NONE
            known.drawn.clear()

    def _drawn(
        self, _acts: ActNotes, _frame: FrameType, index: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        known = self._passes.get(given[0])
        if known is not None:
            known.drawn.append(index)

    def _gave(
        self, acts: ActNotes, frame: FrameType, _: Any, given: tuple[Any, ...], _more: Any
    ) -> None:
        known = self._passes.get(given[0])
        if known is None:
            return
        if known.act == NONE:
            epoch = _whole(attributes(known.sampler).get("epoch"))
            known.act = acts.note(PassAct(epoch=epoch), frame, of=known.loader)
        in_order = attributes(given[0]).get("_in_order", True) is not False
        index = known.drawn.popleft() if known.drawn and in_order else None
        found = _plain_indices(index if type(index) in (list, tuple) else [index])
        for indices in known.indices:
            found = _through(indices, found)
        many = NONE if found is None else len(found)
        acts.note(BatchAct(samples=tuple(found or ())[:MOST], many=many), frame, of=known.act)


def _iterator(loaders: Any) -> Any:
    return getattr(loaders, "_BaseDataLoaderIter", None)


def _whole(number: Any) -> int:
    """A number as it is stored; NONE for anything else."""
    return number if type(number) is int and abs(number) < 1 << 62 else NONE


def _plain_indices(indices: Any) -> Sequence[int] | None:
    """Indices, if all are whole numbers."""
    if type(indices) is range:
        return indices
    if type(indices) in (list, tuple) and all(type(each) is int for each in indices):
        return indices
    return None


def _through(indices: Any, found: Sequence[int] | None) -> Sequence[int] | None:
    """The samples of a data set that are behind these samples of its Subset."""
    if found is None or type(indices) not in (list, tuple, range):
        return None
    known = [indices[each] for each in found if -len(indices) <= each < len(indices)]
    return known if len(known) == len(found) and _plain_indices(known) is not None else None
