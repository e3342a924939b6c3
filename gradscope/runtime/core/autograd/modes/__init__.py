"""Modes of autograd: grad mode, inference mode and anomaly mode."""
