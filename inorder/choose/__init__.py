"""Which kind of key for a table: the model's figures for each kind that meets the requirements."""
