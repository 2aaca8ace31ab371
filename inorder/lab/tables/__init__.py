"""Tables and files of keys that several experiments use."""
