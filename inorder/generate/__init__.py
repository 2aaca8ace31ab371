"""Data sets of UUIDs: generated in numpy (times, uuids), encoded (encode), and written (command)."""
