"""The Spark data source "inorder". Requires the extra ``spark``; no other module imports it.

The modules ``offsets`` and ``options`` import no package of the extra.
"""
