"""Layout of large pictures without frames: arrays of numbers instead of an object for each box."""
