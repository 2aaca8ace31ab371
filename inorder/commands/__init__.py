"""The commands of the command line that need more than one package."""
