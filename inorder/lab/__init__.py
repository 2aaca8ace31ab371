"""The lab: what each kind of key costs, measured on a real server."""
