"""Which files reach inference: by rule for engine and format, or as include and exclude say."""

from __future__ import annotations

import pytest

from lockllm.checkpoint.selection import select

HF = [
    "config.json", "generation_config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
    "model.safetensors.index.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "merges.txt",
    "additional_chat_templates/tool_use.jinja", "modeling_x.py", "preprocessor_config.json",
]  # fmt: skip
INERT = [
    "README.md", "LICENSE", "LICENSE.txt", "USE_POLICY.md", ".gitattributes", ".git/HEAD", ".cache/huggingface/x.metadata",
    "original/consolidated.00.pth", "original/params.json", "original/tokenizer.model", "onnx/model.onnx", "tf_model.h5",
    "flax_model.msgpack", "rust_model.ot", "training_args.bin", "optimizer.pt", "trainer_state.json", "runs/x/events", "cat.png",
    "x.incomplete", "llm.lock", "llm.toml", "coreml/m.mlpackage/x", "__pycache__/modeling_x.cpython-311.pyc", "fig.PDF",
]  # fmt: skip
SECOND = [
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "consolidated.safetensors",
    "model-Q4_K_M.gguf",
    "model.pth",
]


def test_a_hugging_face_folder_is_locked_without_what_never_reaches_inference() -> None:
    found = select([*HF, *INERT, *SECOND])
    assert found.format == "safetensors"
    assert sorted(found.kept) == sorted(HF)
    assert set(found.excluded) == {*INERT, *SECOND}
    assert found.second == {
        "mistral": ("consolidated.safetensors",), "bin": ("pytorch_model.bin",), "gguf": ("model-Q4_K_M.gguf",),
    }  # fmt: skip


def test_a_file_that_no_rule_knows_is_locked() -> None:
    assert "surprise.dat" in select([*HF, "surprise.dat"]).kept


def test_an_unindexed_shard_is_locked() -> None:
    assert select([*HF, "extra.safetensors"]).kept["extra.safetensors"] == "weights"


@pytest.mark.parametrize(
    ("names", "engine", "weights", "format_", "kept"),
    [
        (["a.gguf", "config.json", "tokenizer.json"], "llama.cpp", None, "gguf", ["a.gguf"]),
        (["a.gguf", "config.json"], "vllm", None, "gguf", ["a.gguf", "config.json"]),
        (["a.gguf", "mmproj-a.gguf"], None, None, "gguf", ["a.gguf", "mmproj-a.gguf"]),
        (["a.gguf", "model.safetensors", "config.json"], "llama.cpp", None, "gguf", ["a.gguf"]),
        (["consolidated.safetensors", "params.json", "tekken.json"], None, None, "mistral",
         ["consolidated.safetensors", "params.json", "tekken.json"]),
        (["consolidated.safetensors", "params.json", "config.json", "model.safetensors"], None, "mistral", "mistral",
         ["config.json", "consolidated.safetensors", "params.json"]),
        (["consolidated.safetensors", "params.json", "config.json", "model.safetensors"], None, None, "safetensors",
         ["config.json", "model.safetensors", "params.json"]),
        (["pytorch_model.bin", "training_args.bin", "config.json"], None, None, "bin", ["config.json", "pytorch_model.bin"]),
        (["config.json", "rank0.engine", "rank1.engine"], None, None, "tensorrt-llm", ["config.json", "rank0.engine", "rank1.engine"]),
        (["adapter_config.json", "adapter_model.safetensors", "README.md"], None, None, "peft",
         ["adapter_config.json", "adapter_model.safetensors"]),
        (["adapter_config.json", "adapter_model.bin"], None, None, "peft", ["adapter_config.json", "adapter_model.bin"]),
        (["config.json", "model.safetensors", "mtp/model.safetensors"], None, None, "safetensors", ["config.json", "model.safetensors"]),
        (["config.json"], None, None, "", ["config.json"]),
    ],
)  # fmt: skip
def test_the_rule_depends_on_engine_and_format(
    names: list[str], engine: str | None, weights: str | None, format_: str, kept: list[str]
) -> None:
    found = select(names, engine=engine, weights=weights)
    assert (found.format, sorted(found.kept)) == (format_, kept)


def test_include_replaces_the_rule_and_exclude_takes_away() -> None:
    names = [*HF, "README.md", "mtp/head.safetensors", ".git/HEAD"]
    assert sorted(select(names, include=["*.json", "mtp/"]).kept) == sorted(
        [*(name for name in HF if name.endswith(".json")), "mtp/head.safetensors"]
    )
    assert ".git/HEAD" not in select(names, include=["*"]).kept
    assert select(names, exclude=["*.py"]).excluded["modeling_x.py"] == "in exclude"
    assert "model.safetensors.index.json" not in select(names, include=["*"], exclude=["model*"]).kept
