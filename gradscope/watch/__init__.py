"""Watches PyTorch and reports to a listener, like the runtime to its probe.

Nothing here is imported before the watched program has imported torch itself.
"""
