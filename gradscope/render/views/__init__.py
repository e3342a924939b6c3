"""What each view of a trace looks like as text: one file for each."""
