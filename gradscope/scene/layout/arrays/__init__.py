"""The layout of large pictures without frames: arrays of numbers, and no object for each box."""
