"""Data sets of UUIDs: made in numpy (times, uuids), encoded (encode), written (output), asked for (command)."""
