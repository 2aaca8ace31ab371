"""What ordered keys would save in a table like one of the user's: its columns, indexes and load, by kind of key."""

from inorder.lab.experiments.like.experiment import LikeExperiment
from inorder.lab.experiments.like.plan import LikePlan

__all__ = ["LikeExperiment", "LikePlan"]
