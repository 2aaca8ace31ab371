"""A soak test: under hours of load, each reader must get each row once, and latency, state and memory must not grow."""
