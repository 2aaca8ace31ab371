"""Hours of load, in pieces: each reader must get each row once, and latency, state and memory must not grow."""
