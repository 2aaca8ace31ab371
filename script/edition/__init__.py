"""Build the SQL edition from the sources in sql/. This package needs only Python; make and the wheel build use it."""
