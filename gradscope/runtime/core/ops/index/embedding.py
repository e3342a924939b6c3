"""Lookup of rows of a table: embedding and one_hot."""

from __future__ import annotations

import numpy as np

from gradscope.runtime.core.calls.declare import INTERNAL, LINEAR, family, op, tensors, w
from gradscope.runtime.core.dtypes.names import type_name
from gradscope.runtime.core.kernels.arrays import scatter
from gradscope.runtime.core.ops.index.bags import shorten
from gradscope.runtime.core.ops.index.sparse_tables import looked_up
from gradscope.runtime.core.rows.offered import FUNCTIONS, nn_function
from gradscope.runtime.core.tensors.placement import wrapped_on


def _embedding(
    weight,
    indices,
    padding_idx=-1,
    scale_grad_by_freq=False,
    sparse=False,
    weight_sym_argsize_0=0,
):
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if indices.dtype.char not in "lqi":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got {type_name(indices)} instead (while checking arguments for "
            "embedding)"
        )
    if indices.size and not (indices.min() >= 0 and indices.max() < len(weight)):
        raise IndexError("index out of range in self")
    return weight.take(indices, 0)


def _embedding_backward(grad, indices, rows, padding_idx, scale_grad_by_freq):
    width = grad.shape[indices.ndim :]
    made = np.zeros((rows, *width), grad.dtype)
    flat, values = indices.reshape(-1), grad.reshape(indices.size, *width)
    if scale_grad_by_freq:
        often = np.bincount(flat, minlength=rows)[flat]
        values = values / often.reshape(-1, *(1 for _ in width)).astype(grad.dtype)
    if padding_idx >= 0:
        kept = flat != padding_idx
        flat, values = flat[kept], values[kept]
    scatter.index_add(made, 0, flat, np.ascontiguousarray(values))
    return made


def _rows(grad, indices, padding_idx):
    made = grad.take(indices, 0)
    if padding_idx >= 0:
        made[indices == padding_idx] = 0
    return made


embedding__default = op(
    "EmbeddingBackward0",
    _embedding,
    LINEAR,
    tensors("indices"),
    weight=lambda grad, indices, weight_sym_argsize_0, padding_idx, scale_grad_by_freq, sparse: (
        w.embedding_dense_backward(
            grad, indices, weight_sym_argsize_0, padding_idx, scale_grad_by_freq
        )
    ),
)
embedding_dense_backward = op(
    "EmbeddingDenseBackwardBackward0",
    _embedding_backward,
    LINEAR,
    INTERNAL,
    tensors("indices"),
    grad=lambda grad, indices, padding_idx: w._embedded(grad, indices, padding_idx),
)
_embedded = op(
    "IndexSelectBackward0",
    _rows,
    LINEAR,
    INTERNAL,
    tensors("indices"),
    grad=lambda grad, grad_shape, indices, padding_idx: w.embedding_dense_backward(
        grad, indices, grad_shape[0], padding_idx, False
    ),
)
family(globals())


def _of_table(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    if sparse:
        looked_up(weight)
    rows = weight._array.shape[0] if weight._array.ndim else 0
    return embedding__default(weight, indices, padding_idx, scale_grad_by_freq, sparse, rows)


FUNCTIONS["embedding"] = _of_table


@nn_function
def embedding(
    input,
    weight,
    padding_idx=None,
    max_norm=None,
    norm_type=2.0,
    scale_grad_by_freq=False,
    sparse=False,
):
    """The rows of `weight` at the indices `input`."""
    if weight._array.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    rows = weight._array.shape[0]
    if padding_idx is not None:
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx = padding_idx + rows if padding_idx < 0 else padding_idx
    if max_norm is not None:
        shorten(weight, input, max_norm, norm_type)
    return _of_table(
        weight, input, -1 if padding_idx is None else padding_idx, scale_grad_by_freq, sparse
    )


@nn_function
def one_hot(input, num_classes=-1):
    """A vector with a 1 at the class and zeros elsewhere."""
    array = input._array
    if array.dtype != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if not array.size and num_classes <= 0:
        raise RuntimeError(
            "Can not infer total number of classes from empty tensor."
            if num_classes == -1
            else "num_classes should be positive"
        )
    if array.size and array.min() < 0:
        raise RuntimeError("Class values must be non-negative.")
    most = int(array.max()) if array.size else -1
    if num_classes == -1:
        num_classes = most + 1
    if num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    if most >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    hot = (array[..., None] == np.arange(num_classes)).astype(np.int64)
    return wrapped_on(hot, input.device)
