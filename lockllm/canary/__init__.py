"""The canary: what a running server does, with noise told from a step on distributions, not on strings."""
