"""The Spark data source "inorder". Requires the extra ``spark``; no other module imports it.

Only the modules ``source``, ``rows`` and ``arrow`` import packages of the extra.
"""
