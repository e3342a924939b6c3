"""Where tensors live: the CPU, and simulated devices with their streams."""
