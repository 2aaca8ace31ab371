"""Calls by a hostile role, named mallory, of every function that it may execute, while other roles use the extension.

The role passes any arguments, changes its settings, and creates objects.
"""
