"""Computations on measurements: statistics, the cost model, and comparisons.

The functions are pure.
"""
