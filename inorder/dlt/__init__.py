"""A table as a resource of dlt. This package requires the extra ``dlt``, and no other package imports it."""
