"""Writes a LoRA adapter that the tiny GGUF takes."""

from __future__ import annotations

from pathlib import Path


def write(path: Path) -> None:
    """The same bytes every time."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 4.0)
    draw = np.random.default_rng(1)
    for name, shape in (("a", (4, 64)), ("b", (64, 4))):
        writer.add_tensor(f"blk.0.attn_q.weight.lora_{name}", (draw.standard_normal(shape) * 0.1).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
