"""A run: the experiment, the server that it runs on, and the loop over its measurements."""
