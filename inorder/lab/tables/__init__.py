"""Tables and key files that several experiments use."""
