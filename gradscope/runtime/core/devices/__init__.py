"""Devices: the CPU, and simulated devices with streams."""
