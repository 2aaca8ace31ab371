"""The check for lost rows: run schedules with overlapping transactions, and judge what a reader returned."""
