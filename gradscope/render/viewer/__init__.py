"""The page: one file that shows a trace in a browser, offline."""
