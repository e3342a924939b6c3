"""The picture of a backward graph: boxes, arrows, frames, and what they say."""
