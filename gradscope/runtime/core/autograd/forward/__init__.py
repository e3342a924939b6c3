"""Forward mode: derivatives computed along with values."""
