"""A table as a dlt resource. This package requires the extra ``dlt``, and no other package imports it."""
