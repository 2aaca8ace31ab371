"""Insert TPS and WAL per row, by kind of key and size of table (published studies P1, P3)."""

from inorder.lab.experiments.insert.experiment import InsertExperiment
from inorder.lab.experiments.insert.plan import InsertPlan

__all__ = ["InsertExperiment", "InsertPlan"]
