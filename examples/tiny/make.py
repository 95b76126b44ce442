"""Writes the tiny checkpoint, as safetensors and as GGUF: the same random weights, the same bytes at every run.

    python make.py                      # model/ and tiny.gguf, as checked in
    python make.py --out DIR --seed 1   # another checkpoint of the same shape
    python make.py --out DIR --template FILE --temperature 0.2

Needs the standard library alone.
"""

from __future__ import annotations

import argparse
import json
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HIDDEN, INTERMEDIATE, LAYERS, HEADS, KV_HEADS, CONTEXT = 64, 128, 2, 2, 1, 2048
HEAD_DIM = HIDDEN // HEADS
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")  # padding, beginning and end of a turn
MERGES = tuple(
    "Ġ t|h e|i n|Ġ a|r e|o n|Ġt he|e r|Ġ s|a t|Ġ w|Ġ o|e n|Ġ c|i t|i s|a n|o r|e s|Ġ b|e d|Ġ f|in g|Ġ p|o u|Ġa n|a l|"
    "a r|Ġt o|Ġ m|Ġo f|Ġ in|Ġ d|Ġ h|Ġan d|u s|us er|y s|ys t|yst e|yste m|s ystem|a s|s is|as sis|t an|assis tan|"
    "assistan t".split("|")
)
TEMPLATE = """\
{%- if messages[0]['role'] == 'system' -%}
{%- set system = messages[0]['content'] -%}
{%- set turns = messages[1:] -%}
{%- else -%}
{%- set system = 'You are a tiny assistant.' -%}
{%- set turns = messages -%}
{%- endif -%}
<|im_start|>system
{{ system }}
{%- if tools -%}
{{ '\\n\\nTools:' }}
{%- for tool in tools -%}
{{ '\\n' + (tool | tojson) }}
{%- endfor -%}
{%- endif -%}
<|im_end|>
{% for message in turns -%}
<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}
<|im_start|>assistant
{% endif -%}
"""

Tensor = tuple[tuple[int, ...], list[float]]


def vocabulary() -> list[str]:
    """Every token in the order of its id: special tokens, the 256 bytes as printable characters, the merges."""
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spare = iter(range(256, 512))
    letters = [chr(byte) if byte in keep else chr(next(spare)) for byte in range(256)]
    return [*SPECIAL, *letters, *(merge.replace(" ", "") for merge in MERGES)]


def weights(seed: int) -> dict[str, Tensor]:
    """Random tensors by name. Every value is one that bfloat16 holds."""
    rng = random.Random(seed)

    def noise(*shape: int) -> Tensor:
        return shape, [_bfloat16(0.28 * (rng.random() - 0.5)) for _ in range(shape[0] * shape[1])]

    ones: Tensor = (HIDDEN,), [1.0] * HIDDEN
    made = {"model.embed_tokens.weight": noise(len(vocabulary()), HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        made[f"{at}.input_layernorm.weight"] = ones
        made[f"{at}.self_attn.q_proj.weight"] = noise(HEADS * HEAD_DIM, HIDDEN)
        made[f"{at}.self_attn.k_proj.weight"] = noise(KV_HEADS * HEAD_DIM, HIDDEN)
        made[f"{at}.self_attn.v_proj.weight"] = noise(KV_HEADS * HEAD_DIM, HIDDEN)
        made[f"{at}.self_attn.o_proj.weight"] = noise(HIDDEN, HEADS * HEAD_DIM)
        made[f"{at}.post_attention_layernorm.weight"] = ones
        made[f"{at}.mlp.gate_proj.weight"] = noise(INTERMEDIATE, HIDDEN)
        made[f"{at}.mlp.up_proj.weight"] = noise(INTERMEDIATE, HIDDEN)
        made[f"{at}.mlp.down_proj.weight"] = noise(HIDDEN, INTERMEDIATE)
    return made | {"model.norm.weight": ones, "lm_head.weight": noise(len(vocabulary()), HIDDEN)}


def sampling(temperature: float) -> dict[str, float | int]:
    """What the checkpoint declares as sampling defaults."""
    return {"temperature": temperature, "top_p": 0.9, "top_k": 20, "repetition_penalty": 1.05}


def write_directory(folder: Path, tensors: dict[str, Tensor], template: str, temperature: float) -> None:
    """The checkpoint as the Hub would hold it."""
    folder.mkdir(parents=True, exist_ok=True)
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", **ids, "hidden_act": "silu",
        "hidden_size": HIDDEN, "intermediate_size": INTERMEDIATE, "num_attention_heads": HEADS, "head_dim": HEAD_DIM,
        "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
        "max_position_embeddings": CONTEXT, "tie_word_embeddings": False, "attention_bias": False,
        "vocab_size": len(vocabulary()),
    }  # fmt: skip
    tokenizer = {
        "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": CONTEXT, "add_bos_token": False,
        "clean_up_tokenization_spaces": False, **_special_tokens(),
    }  # fmt: skip
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", {"do_sample": True, **ids, **sampling(temperature)})
    _write_json(folder / "special_tokens_map.json", _special_tokens())
    _write_json(folder / "tokenizer_config.json", tokenizer)
    _write_json(folder / "tokenizer.json", _tokenizer())
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_safetensors(tensors))


def write_gguf(path: Path, tensors: dict[str, Tensor], template: str, temperature: float) -> None:
    """The same checkpoint as llama.cpp's converter would write it: half precision, rows reordered for its RoPE."""
    tokens = vocabulary()
    settings = sampling(temperature)
    meta: list[tuple[str, str, Any]] = [
        ("general.architecture", "string", "llama"), ("general.name", "string", "tiny"),
        ("general.file_type", "uint32", 1), ("general.sampling.top_k", "int32", settings["top_k"]),
        ("general.sampling.top_p", "float32", settings["top_p"]),
        ("general.sampling.temp", "float32", settings["temperature"]),
        ("general.sampling.penalty_repeat", "float32", settings["repetition_penalty"]),
        ("llama.context_length", "uint32", CONTEXT), ("llama.embedding_length", "uint32", HIDDEN),
        ("llama.block_count", "uint32", LAYERS), ("llama.feed_forward_length", "uint32", INTERMEDIATE),
        ("llama.attention.head_count", "uint32", HEADS), ("llama.attention.head_count_kv", "uint32", KV_HEADS),
        ("llama.attention.layer_norm_rms_epsilon", "float32", 1e-5), ("llama.rope.dimension_count", "uint32", HEAD_DIM),
        ("llama.rope.freq_base", "float32", 10000.0), ("llama.vocab_size", "uint32", len(tokens)),
        ("tokenizer.ggml.model", "string", "gpt2"), ("tokenizer.ggml.pre", "string", "gpt-2"),
        ("tokenizer.ggml.tokens", "strings", tokens),
        ("tokenizer.ggml.token_type", "int32s", [3] * len(SPECIAL) + [1] * (len(tokens) - len(SPECIAL))),
        ("tokenizer.ggml.merges", "strings", MERGES), ("tokenizer.ggml.bos_token_id", "uint32", 1),
        ("tokenizer.ggml.eos_token_id", "uint32", 2), ("tokenizer.ggml.padding_token_id", "uint32", 0),
        ("tokenizer.ggml.add_bos_token", "bool", False), ("tokenizer.chat_template", "string", template),
    ]  # fmt: skip
    infos, data = b"", b""
    for name, (shape, values) in _gguf_tensors(tensors):
        full = len(shape) == 1  # norms stay float32
        infos += _gguf_string(name) + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}QIQ", *reversed(shape), 0 if full else 1, len(data))
        data += _aligned(struct.pack(f"<{len(values)}{'f' if full else 'e'}", *values))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta)) + b"".join(_gguf_entry(*entry) for entry in meta)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_aligned(head + infos) + data)


def _bfloat16(value: float) -> float:
    return float(struct.unpack("<f", b"\0\0" + struct.pack("<f", value)[2:])[0])


def _special_tokens() -> dict[str, str]:
    return {"bos_token": SPECIAL[1], "eos_token": SPECIAL[2], "pad_token": SPECIAL[0]}


def _tokenizer() -> dict[str, Any]:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": number, "content": text, **flags} for number, text in enumerate(SPECIAL)],
        "normalizer": None, "pre_tokenizer": level, "post_processor": level, "decoder": level,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(vocabulary())},
            "merges": [merge.split(" ") for merge in MERGES],
        },
    }  # fmt: skip


def _write_json(path: Path, content: dict[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _safetensors(tensors: dict[str, Tensor]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, (shape, values) in sorted(tensors.items()):
        start = len(data)
        floats = struct.pack(f"<{len(values)}f", *values)
        half = bytearray(len(values) * 2)
        half[0::2], half[1::2] = floats[2::4], floats[3::4]
        data += half
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [start, len(data)]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + bytes(data)


def _gguf_tensors(tensors: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    names = {
        "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    }  # fmt: skip
    for name, tensor in tensors.items():
        stem = name.removesuffix(".weight")
        if stem.startswith("model.layers."):
            layer, _, part = stem.removeprefix("model.layers.").partition(".")
            turned = names[part] in ("attn_q", "attn_k")
            yield f"blk.{layer}.{names[part]}.weight", _for_rope(tensor) if turned else tensor
        else:
            yield f"{names[stem]}.weight", tensor


def _for_rope(tensor: Tensor) -> Tensor:
    """Rows of each head from two halves to pairs."""
    (rows, columns), values = tensor
    half = HEAD_DIM // 2
    heads = range(0, rows, HEAD_DIM)
    order = [head + part * half + at for head in heads for at in range(half) for part in (0, 1)]
    return (rows, columns), [value for row in order for value in values[row * columns : (row + 1) * columns]]


def _gguf_string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _gguf_entry(key: str, kind: str, value: Any) -> bytes:
    numbers = {"uint32": (4, "<I"), "int32": (5, "<i"), "float32": (6, "<f"), "bool": (7, "<?")}
    head = _gguf_string(key)
    if kind in numbers:
        code, shape = numbers[kind]
        return head + struct.pack("<I", code) + struct.pack(shape, value)
    if kind == "string":
        return head + struct.pack("<I", 8) + _gguf_string(value)
    if kind == "strings":
        return head + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_gguf_string, value))
    return head + struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def _aligned(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 32)


def main() -> None:
    """Reads the command line and writes both forms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="takes model/ and tiny.gguf")
    parser.add_argument("--seed", type=int, default=0, help="another seed makes other weights")
    parser.add_argument("--template", type=Path, help="file of another chat template")
    parser.add_argument("--temperature", type=float, default=0.6, help="sampling default that the checkpoint declares")
    given = parser.parse_args()
    tensors = weights(given.seed)
    template = given.template.read_text(encoding="utf-8") if given.template else TEMPLATE
    write_directory(given.out / "model", tensors, template, given.temperature)
    write_gguf(given.out / "tiny.gguf", tensors, template, given.temperature)


if __name__ == "__main__":
    main()
