"""script/engines: the load under which the data source in Spark must lose and repeat nothing."""
