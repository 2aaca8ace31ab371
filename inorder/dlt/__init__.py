"""A table as a resource of dlt: requires the extra ``dlt``, and is imported by nothing else of the tool."""
