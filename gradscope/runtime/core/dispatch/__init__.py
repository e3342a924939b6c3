"""Who else may take a call: users' operators and kernels, overriding classes, modes."""
