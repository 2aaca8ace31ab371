"""A stress test with concurrent writers, readers, counts and disturbances. No row may be lost or delivered twice."""
