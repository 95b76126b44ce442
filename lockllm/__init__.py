"""lockllm pins everything that turns a model's weights into tokens, and says what moved."""

# No `from __future__` here: it is a real import, in which an interrupt would print a traceback.
__version__ = "0.1.0"
