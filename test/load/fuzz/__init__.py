"""A fuzz test: the hostile role mallory calls every function that it may execute, while other roles use the extension.

Mallory passes random arguments, changes settings, and creates objects.
"""
