"""What stands between a command line and an engine: wrappers are taken off, launch forms recognised.

Pure, and no engine is imported. Nothing is lost in silence: what could not be taken off is told in `warnings`, and then
no argument is claimed for an engine.
"""

from __future__ import annotations

from lockllm.engines.launch.forms import recognise
from lockllm.engines.launch.unwrapping import Unwrapped, unwrap

__all__ = ["Unwrapped", "recognise", "unwrap"]
