"""script/engines: a load under which the Spark data source must deliver each row exactly once."""
