"""The load test script/engines: the Spark data source must deliver each row exactly once."""
