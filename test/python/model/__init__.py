"""Runs of the model checker TLC on the models in test/model."""
