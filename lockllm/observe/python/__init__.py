"""A Python environment read as files: distributions, packages, start-up code."""
