"""Check if a reader loses rows: run schedules that make transactions overlap, and judge the result."""
