"""Writers, readers of every kind, counts and disturbances at once: nothing lost, nothing twice."""
