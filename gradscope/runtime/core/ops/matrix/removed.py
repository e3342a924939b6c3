"""Functions that PyTorch removed, with its errors."""

from __future__ import annotations

from gradscope.runtime.core.rows.offered import FUNCTIONS, METHODS

GONE = "This function was deprecated since version 1.9 and is now removed."
WORDS = {
    "symeig": f"{GONE} The default behavior has changed from using the upper triangular portion of "
    "the matrix by default to using the lower triangular portion.",
    "eig": f"{GONE} `torch.linalg.eig` returns complex tensors of dtype `cfloat` or `cdouble` "
    "rather than real tensors mimicking complex tensors.",
    "solve": f"{GONE} `torch.solve` is deprecated in favor of `torch.linalg.solve`. "
    "`torch.linalg.solve` has its arguments reversed and does not return the LU factorization.",
    "lstsq": f"{GONE} `torch.lstsq` is deprecated in favor of `torch.linalg.lstsq`.",
    "matrix_rank": GONE,
}


def _removed(name, text):
    def removed(input, *given, **options):
        raise RuntimeError(text)

    removed.__name__ = name
    return removed


for _name, _text in WORDS.items():
    FUNCTIONS[_name] = _removed(_name, _text)
    if _name != "matrix_rank":
        METHODS[_name] = FUNCTIONS[_name]
