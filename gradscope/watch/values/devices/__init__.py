"""Measures tensors that are not on the CPU, by operations on their device."""
