"""Windows that slide over arrays: convolution, pooling, resampling."""
