"""Results: the measurements of a run, and the file that stores them."""
