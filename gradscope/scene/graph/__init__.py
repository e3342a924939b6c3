"""The picture of a backward graph: boxes, arrows, frames and their texts."""
