"""The whole trace over time, for the timelines of other programs."""
