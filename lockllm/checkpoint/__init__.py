"""Files of a model: what lies at a path, what it declares, and the digest of every byte that reaches inference."""

from __future__ import annotations

from lockllm.checkpoint.survey import Layout, Look, SeenFile, look

__all__ = ["Layout", "Look", "SeenFile", "look"]
