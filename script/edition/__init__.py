"""Builds the SQL edition from the sources in sql/. Imports no package: make and the build of the wheel use it."""
