"""What was measured, and the file that keeps it."""
