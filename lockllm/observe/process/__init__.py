"""Processes and listeners as /proc shows them."""
