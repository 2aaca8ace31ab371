"""Throw-away servers: copy an installation, start a server in a private folder, and remove it afterwards."""
