"""Acts about data: loaders, the samples of their batches, and what models were given.

They are recorded on PyTorch, in programs of several ranks; those of loaders from level `values` on
also in others. Samples are positions in a data set.
"""

from __future__ import annotations

from gradscope.trace.schema.acts import ActFacts, act
from gradscope.trace.schema.declare import NONE, ActId, Ints, Text


@act("split")
class SplitAct(ActFacts):
    """A data set was divided by `random_split`."""

    many: Ints = ()  # numbers of samples of the parts
    digest: int = NONE  # of all samples in their order; NONE: not read


@act("sampler")
class SamplerAct(ActFacts):
    """A DistributedSampler was created: it gives each rank its part of a data set."""

    replicas: int = NONE
    rank: int = NONE
    seed: int = NONE
    shuffle: bool = False
    drop_last: bool = False
    total: int = NONE  # number of samples of all ranks, with those that come twice


@act("loader")
class LoaderAct(ActFacts):
    """A DataLoader was created. `of`: the act of its DistributedSampler."""

    data: Text = ""  # type of the data set, below all Subsets
    many: int = NONE  # number of samples in it, if its type is PyTorch's
    number: int = NONE  # data sets are numbered as they are first seen, from 0
    split: ActId = NONE  # the act that divided it
    part: int = NONE  # index of the part
    sampler: Text = ""  # type of its sampler, or of its batch sampler if the program passed one
    batch: int = NONE  # number of samples of a batch
    workers: int = 0


@act("pass")
class PassAct(ActFacts):
    """A DataLoader began to give its batches, for an epoch or a part of one. `of`: its act."""

    epoch: int = NONE  # the epoch of its DistributedSampler


@act("batch")
class BatchAct(ActFacts):
    """A DataLoader gave a batch. `of`: the act of the pass."""

    samples: Ints = ()  # up to 1,024, as positions in the data set below all Subsets
    many: int = NONE  # number of samples; NONE: not known, as of an IterableDataset


@act("given")
class GivenAct(ActFacts):
    """The outermost module was called with tensors: `module`.

    The lists have one value for each of the first four tensors that require no gradient and have a
    dim. Rows are along the first dim; places in memory are in elements.
    """

    many: Ints = ()  # number of rows
    first: Ints = ()  # place of the first element in the storage
    apart: Ints = ()  # distance between two rows
    row: Ints = ()  # number of elements of a row
    whole: Ints = ()  # number of elements of the storage
    digests: Ints = ()  # of the first 65,536 bytes; NONE: not read (other devices, below `values`)
    grad: bool = False  # gradients were recorded


@act("drew")
class DrewAct(ActFacts):
    """A call returned random numbers that were measured: on the CPU, from level `values` on."""

    by: Text = ""  # randn, randn_like, rand, randint
    many: int = 0  # number of rows, along the first dim
    digest: int = NONE  # of the bits of the first 65,536 bytes: ranks that drew the same have it
