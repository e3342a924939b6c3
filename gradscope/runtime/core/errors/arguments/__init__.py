"""Errors for calls whose arguments PyTorch does not accept.

# Note [Wrong arguments]
PyTorch checks all arguments before it does anything, which takes some time in every call. The
runtime checks them only after a failure: the frames of the stack show which function the user
called, and with which values. If these fit none of the signatures of PyTorch's function
(`signatures.txt`), the arguments are the cause, and PyTorch's error is raised; otherwise the
original error is raised.
"""
