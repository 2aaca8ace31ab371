"""Commands that use several packages."""
