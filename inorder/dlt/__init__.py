"""A table as a resource of dlt. Requires the extra ``dlt``; no other module imports it."""
