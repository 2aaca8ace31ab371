"""A plan: what a run is to measure, on which keys, in which order, and what a server allows of it."""
