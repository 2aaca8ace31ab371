"""Build the SQL edition from the sources in sql/, without other packages: make and the build of the wheel run this."""
