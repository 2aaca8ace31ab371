"""Runs of the model checker TLC over test/model."""
