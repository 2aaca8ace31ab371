"""A run: the experiment, its server, and the loop over its measurements."""
