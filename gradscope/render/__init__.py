"""One scene in, text or pixels out."""
