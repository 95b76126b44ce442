"""Refresh what lockllm knows of an engine from one of its releases: `python -m tools.refresh vllm 0.34.0`."""
