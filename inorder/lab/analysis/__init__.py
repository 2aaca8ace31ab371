"""Compute figures from measurements: statistics, the model, comparisons. Pure."""
