"""Writers, readers of every kind, counts and disturbances at once: no row may be lost or delivered twice."""
