"""lockllm pins everything that turns a model's weights into tokens, and says what moved."""

from __future__ import annotations

__version__ = "0.1.0"
