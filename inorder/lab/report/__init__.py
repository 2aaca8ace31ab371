"""Reports of result files, on a terminal or as an HTML page. This package never connects to a database."""
