"""Build the SQL edition from the sources in sql/, without other packages, for make and for the build of the wheel."""
