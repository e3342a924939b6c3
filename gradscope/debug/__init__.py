"""Time travel over a finished trace: its state at any event. Nothing here yet."""
