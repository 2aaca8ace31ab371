"""From measurements to figures: statistics, the model, comparisons. Pure."""
