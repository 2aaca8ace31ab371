"""Every experiment of the lab by name, as the commands run them."""

from inorder.lab.moving import moved

EXPERIMENTS = {experiment.name: experiment for experiment in moved()}
