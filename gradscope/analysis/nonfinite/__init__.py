"""Where NaN and Inf are first produced, from what, and what to write instead."""
