"""The whole trace over time, for timeline viewers such as Perfetto."""
