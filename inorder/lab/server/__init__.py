"""Throw-away servers: found, built against, started in a private folder, removed afterwards."""
