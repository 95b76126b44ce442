"""SGLang: what it is. Command line, YAML file, variables, endpoints, log and rules are read from 0.3.4 to 0.5.23."""

from __future__ import annotations

from lockllm.engines.protocol import Identity, Image, Prompts, Shape, Weights

_GUESSES = (
    (r"\bpoints\b", "points-v15-chat"), (r"moss-vl", "moss-vl"), (r"internvl", "internvl-2-5"), (r"janus", "janus-pro"),
    (r"vicuna|llava-v1\.5|llava-next-video-7b", "vicuna_v1.1"), (r"deepseek.*vl2", "deepseek-vl2"),
    (r"llava-v1\.6-34b|llava-v1\.6-yi-34b|llava-next-video-34b|llava-onevision-qwen2", "chatml-llava"),
    (r"minicpm-v(?!-?4[._][6-9])", "minicpmv"), (r"minicpm-o(?!-?4[._][6-9])", "minicpmo"),
    (r"phi-4-multimodal", "phi-4-mm"), (r"deepseek-ocr", "deepseek-ocr"), (r"unlimited", "unlimited-ocr"),
    (r"paddleocr", "paddle-ocr"), (r"whisper", "whisper"),
)  # fmt: skip
_GUESSED_TYPES = {
    "internvl_chat": "internvl-2-5", "deepseek_vl_v2": "deepseek-vl2", "multi_modality": "janus-pro",
    "phi4mm": "phi-4-mm", "minicpmv": "minicpmv", "minicpmo": "minicpmo",
}  # fmt: skip
"""Conversations of its own, by words of the path or the model type: `parser/conversation.py`, 0.5.23."""
_CLI = (Shape(("serve",)),)

IDENTITY = Identity(
    name="sglang",
    label="SGLang",
    module=f"{__name__}.engine",
    programs={"sglang": _CLI},
    modules={
        "sglang.launch_server": (Shape(subcommand="serve"),),
        "sglang.cli.main": _CLI,
        "sglang": _CLI,
        "dynamo.sglang": (Shape(wrapper="dynamo", subcommand="serve"),),
        "sglang_router.launch_server": (Shape(wrapper="sglang-router", subcommand="serve"),),
    },
    starts=("sglang", "serve"),
    command_images=(r"(^|/)lmsysorg/sglang", r"(^|/)rocm/sgl"),
    port=30000,
    image=Image(name="lmsysorg/sglang:v{}", port=30000, own_machine_only=True),
    embedded=("-packages/sgl_kernel/",),
    titles=("sglang::",),
    log_start=rb"server_args=(?:ServerArgs\(|\{)",
    package_index="sglang",
    no_sampling_seed=True,
    weights=Weights(globs=True),
    shares_gpus=lambda held: held.get(("serve", "args", "enable_dp_attention")) is True,
    prompts=Prompts(
        rule="first_of_several",
        newest=(0, 5),
        mistral_common=True,
        guesses=_GUESSES,
        guessed_types=_GUESSED_TYPES,
        content_format="names",
        endpoint="/tokenize",  # 0.5.12 and later
    ),
)
