"""What is said of a call whose arguments PyTorch does not take.

# Note [Wrong arguments]
PyTorch looks at all arguments before it does anything, at the price of some time in every call.
Here a call that is right is not looked at: where something fails, whatever the reason, the frames
of the stack tell which function the user had called, and with which values. If these fit none of
the ways in which PyTorch's function is called (`signatures.txt`), that is what went wrong, and it
is said in PyTorch's words; else the error is the one that was raised.
"""
