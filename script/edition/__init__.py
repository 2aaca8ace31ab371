"""Build the SQL edition from the sources in sql/. No package is imported, because make and the wheel build use this."""
