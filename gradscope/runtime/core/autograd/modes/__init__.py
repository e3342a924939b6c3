"""Switches of autograd: whether history is recorded, whether anomalies are looked for."""
