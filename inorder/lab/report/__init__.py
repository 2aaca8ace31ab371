"""Reports: from result files to a terminal and to one HTML page. Never talks to a database."""
