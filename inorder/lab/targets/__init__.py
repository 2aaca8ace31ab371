"""Whose server an experiment is run on: one interface, and what each can show."""
