"""Data sets of UUIDs, which are generated with numpy (times, uuids), encoded (encode) and written (command)."""
