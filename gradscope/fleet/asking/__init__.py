"""Questions to a fleet: the folder is read, parts are asked, and their answers are put together."""
