"""Watching real PyTorch: all that touches it. Tells a listener, as the runtime tells its probe.

Nothing here is imported before the watched program has imported torch itself.
"""
