"""Where NaN and Inf were born, out of what, and what to write instead."""
