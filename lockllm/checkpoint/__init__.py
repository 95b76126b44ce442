"""Files of a model: what lies at a path, what it declares, and the digest of every byte that reaches inference."""

from __future__ import annotations

from lockllm.checkpoint.layout import Layout
from lockllm.checkpoint.reading import SeenFile
from lockllm.checkpoint.survey import Look, look

__all__ = ["Layout", "Look", "SeenFile", "look"]
