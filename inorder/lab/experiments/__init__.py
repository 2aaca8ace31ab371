"""The experiments, one a module. Each reads as the run it makes."""
