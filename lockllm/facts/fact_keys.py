"""The keys of facts that code may name: a misspelt one is an error of types."""

from __future__ import annotations

from typing import Literal, TypeAlias

from lockllm.facts.row_keys import RowKey

MemberKey: TypeAlias = Literal[
    "draft.repo",
    "kernels.all_reduce_fusion",
    "kernels.custom_all_reduce",
    "kernels.flash_attn_version",
    "kernels.kv_rotation",
    "kernels.kv_scale",
    "kernels.mla_prefill_backend",
    "kernels.model_runner",
    "kernels.moe_config",
    "kernels.offloaded_layers",
    "kernels.tree_cache",
    "sampling.completions.max_tokens",
    "sampling.generate.max_tokens",
    "sampling.mirostat",
    "sampling.repeat_last_n",
    "sampling.samplers",
    "sampling.typical_p",
    "serve.args.attn_dp_size",
    "serve.args.convert",
    "serve.args.disaggregation_decode_enable_radix_cache",
    "serve.args.disaggregation_mode",
    "serve.args.enable_dp_attention",
    "serve.args.enable_expert_parallel",
    "serve.args.enable_mis",
    "serve.args.enable_prompt_embeds",
    "serve.args.fit",
    "serve.args.kv_unified_per_slot",
    "serve.args.performance_mode",
    "serve.args.quant_policy",
    "serve.args.rl_on_policy_target",
    "serve.args.runner",
    "serve.args.task",
    "serve.args.tokenizer_config_path",
    "serve.speculative.accept_threshold_acc",
    "serve.speculative.accept_threshold_single",
    "serve.speculative.eagle_topk",
    "serve.speculative.method",
    "serve.speculative.num_draft_tokens",
    "serve.speculative.num_speculative_tokens",
    "serve.speculative.num_steps",
]
"""Members of families, whose names the world chooses, that an engine reads or sets by name."""
FactKey: TypeAlias = RowKey | MemberKey
