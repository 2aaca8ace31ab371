"""Hours of load, in pieces: each row must come once to each reader, and nothing may grow."""
