"""The Spark data source "inorder": requires the extra ``spark``, and is imported by nothing else of the tool.

The modules ``source``, ``rows`` and ``arrow`` import packages of the extra; the others do not.
"""
