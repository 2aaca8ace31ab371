"""Compute figures from measurements: statistics, the model, comparisons. The functions are pure."""
