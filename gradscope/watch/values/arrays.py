"""The numbers of a tensor, for those who ask at leisure."""

from __future__ import annotations

from typing import Any

import torch

from gradscope.watch.unseen import unseen


def numbers(tensor: Any) -> Any:
    """What a floating tensor holds, as an array of NumPy; None: it is not one that can be read."""
    with unseen(), torch.no_grad():
        try:
            if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.is_sparse:
                return None
            found = tensor.detach().cpu()
            return (found if found.dtype in READ else found.float()).resolve_conj().numpy()
        except (RuntimeError, TypeError):  # one without memory, as of a meta device
            return None


READ = (torch.float32, torch.float64, torch.float16, torch.complex64, torch.complex128)
"""What NumPy can hold."""
