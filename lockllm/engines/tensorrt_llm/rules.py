"""TensorRT-LLM's defaults, as far as sources of 1.0 to 1.3 were read; a newer field default is not guessed."""

from __future__ import annotations

from collections.abc import Iterable

from lockllm.engines.kernel.rules import Case, Rule, Rules, Told, constants, kept
from lockllm.engines.protocol import Context, Given
from lockllm.facts.keys import parse
from lockllm.facts.observation import By, Check, CheckStatus, Unobserved
from lockllm.facts.registry import seen

NEWEST = "1.3"
_ASK = "observe the start log, or give it"
_OF_PYTORCH = ("tensorrt", "trt")
"""Backends for which the options of the PyTorch backend mean nothing."""


def _pytorch(fact: str, value: object, says: str) -> Rule:
    """A default of the PyTorch backend."""

    def work(case: Case) -> Told | None:
        if case.held.get(("serve", "args", "backend")) in _OF_PYTORCH:
            return None
        return seen(parse(fact), value, f"default of TensorRT-LLM {case.version}", By.DEFAULT)

    return Rule(fact=fact, value=value, work=work, says=says)


def _request(name: str, value: float, says: str = "") -> Rule:
    """What a request that says nothing gets: `serve/openai_protocol.py`."""

    def work(case: Case) -> Told:
        if case.held.get(("serve", "args", "generation_config")) == "auto":
            reason = "generation_config: auto takes sampling defaults from the checkpoint's generation_config.json"
            return Unobserved(("sampling", name), reason, "pin them with --pin from a server that shows them")
        return seen(("sampling", name), value, f"default of TensorRT-LLM {case.version}", By.DEFAULT)

    return Rule(fact=f"sampling.{name}", work=work, over_given=True, says=says or str(value))


def _moved(name: str) -> Rule:
    """Nobody knows these without the running server."""
    reason = "its default moved between releases, or follows the model"
    return Rule(fact=f"serve.{name}", work=lambda case: Unobserved(("serve", name), reason, _ASK))


def _dtype(case: Case) -> Told:
    declared = case.context.checkpoint.get(("checkpoint", "dtype"))
    if declared in ("float16", "bfloat16"):
        return case.told("serve.dtype", declared, "auto is the checkpoint's")
    return Unobserved(("serve", "dtype"), "auto follows the checkpoint", "set dtype in the YAML file")


RULES = Rules(
    label="TensorRT-LLM",
    oldest="1.0",
    newest=f"{NEWEST}.99",
    rows=(
        *constants({
            "serve.tensor_parallel_size": 1, "serve.pipeline_parallel_size": 1, "serve.trust_remote_code": False,
            "serve.enable_chunked_prefill": False, "serve.enable_prefix_caching": True,
        }),
        _pytorch("serve.attention_backend", "TRTLLM", "TRTLLM"),
        _pytorch("serve.enforce_eager", False, "false"),
        _request("temperature", 1.0),
        _request("top_p", 1.0),
        _request("top_k", 0, "off"),
        _request("min_p", 0.0),
        _request("repetition_penalty", 1.0),
        _request("presence_penalty", 0.0),
        _request("frequency_penalty", 0.0),
        Rule(fact="sampling.seed", value=None, source="the runtime's seed 0", over_given=True, says="0, the runtime's"),
        Rule(fact="serve.dtype", work=_dtype, says="the checkpoint's"),
        _moved("max_num_seqs"),
        _moved("max_num_batched_tokens"),
        _moved("max_model_len"),
        _moved("kv_cache_dtype"),
        Rule(fact="serve.gpu_memory_share", value=0.9, only_omitted=True),
        *kept(
            {
                "backend": "pytorch", "max_beam_width": 1, "context_parallel_size": 1, "enable_attention_dp": False,
                "kv_cache_free_gpu_memory_fraction": 0.9, "kv_cache_config.free_gpu_memory_fraction": 0.9,
                "enable_autotuner": True, "disable_overlap_scheduler": False, "allreduce_strategy": "AUTO",
                "sampler_type": "auto", "scheduler_config.capacity_scheduler_policy": "GUARANTEED_NO_EVICT",
                "fail_fast_on_attention_window_too_large": False,
            },
            source="commands/serve.py, llmapi/llm_args.py",
        ),
    ),
)  # fmt: skip
effective = RULES.effective
omitted = RULES.omitted


def checks(given: Given | None, context: Context) -> Iterable[Check]:
    """Findings that need no lock."""
    force = context.env.get("FORCE_DETERMINISTIC")
    if force is not None and force != "1":
        yield Check(
            "check.settings_take_effect", CheckStatus.FAIL, "FORCE_DETERMINISTIC counts only as exactly 1",
            "variable FORCE_DETERMINISTIC", "set FORCE_DETERMINISTIC=1",
        )  # fmt: skip
