"""Whatever JSON stands in a checkpoint's small files: facts, findings or gaps, never an exception."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockllm.checkpoint import look

KEYS = st.sampled_from([
    "quantization_config", "quant_method", "bits", "group_size", "config_groups", "weights", "input_activations", "num_bits",
    "text_config", "rope_scaling", "rope_parameters", "full_attention", "rope_theta", "type", "factor", "dtype", "torch_dtype",
    "eos_token_id", "architectures", "auto_map", "AutoModel", "weight_map", "metadata", "sliding_window", "layer_types",
    "max_position_embeddings", "tie_word_embeddings", "temperature", "top_k", "peft_type", "r", "target_modules", "revision",
    "quant_type", "default", "_type", "_data", "granularity", "quantization", "quant_algo", "yarn", "pretrained_config", "mapping",
    "world_size", "chat_template", "add_bos_token", "weight_block_size", "global_quant_config", "kv_cache_scheme", "ignore",
    "config_for_layers", "num_centroids", "vector_lens", "data_type", "build_config", "thinker_config", "use_sliding_window",
])  # fmt: skip
WORDS = st.sampled_from([
    "gptq", "awq", "fp8", "compressed-tensors", "modelopt", "quark", "torchao", "hqq", "aqlm", "auto-round", "exl3", "quanto",
    "vptq", "bitsandbytes", "mxfp4", "fp_quant", "llama3", "yarn", "bfloat16", "a/b--c.D", "Int4WeightOnlyConfig", "FP8", "NVFP4",
    "model-00001-of-00002.safetensors", "../x", "sliding_attention", "", "\n", "\udcff", "int8", "float8",
])  # fmt: skip
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    WORDS,
    st.text(max_size=5),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=25
)
FILES = st.dictionaries(
    st.sampled_from([
        "config.json", "generation_config.json", "tokenizer_config.json", "adapter_config.json", "params.json", "quant_config.json",
        "hf_quant_config.json", "quantize_config.json", "model.safetensors.index.json", "processor_config.json",
        "special_tokens_map.json", "chat_template.json",
    ]),
    st.dictionaries(KEYS, VALUES, max_size=8) | VALUES,
    min_size=1,
)  # fmt: skip


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    FILES,
    st.sampled_from([None, "vllm", "llama.cpp"]),
    st.sampled_from(["", "rank0.engine", "consolidated.safetensors"]),
)
def test_any_json_gives_facts_findings_or_gaps(files: dict[str, object], engine: str | None, beside: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, value in files.items():
            Path(folder, name).write_text(json.dumps(value))
        if beside:
            Path(folder, beside).write_bytes(b"")
        found = look(folder, engine=engine)
        assert found.readings
        assert all(check.detail for check in found.checks)
