"""The waist: what producers write and every view reads."""
