"""The servers on which experiments run, a throw-away server or the user's own, with a common interface."""
