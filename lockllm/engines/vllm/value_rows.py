"""Values that vLLM's options take where its parser holds a list of them, from 0.6.0 to 0.33.0.

Told by the parsers of those releases themselves. Each step is a first release and what it takes: the whole list, what
came (`+`) and went (`-`), or `*` for anything. `None`: also an empty text.
"""

from __future__ import annotations

VALUES: dict[str, tuple[tuple[str, str], ...]] = {
    "all2all_backend": (
        ("0.12.0",
         "None allgather_reducescatter deepep_high_throughput deepep_low_latency flashinfer_all2allv naive pplx"),
        ("0.14.0", "-None"),
        ("0.16.0", "+mori"),
        ("0.18.0", "+flashinfer_nvlink_one_sided +flashinfer_nvlink_two_sided +nixl_ep"),
        ("0.23.0", "+mori_high_throughput +mori_low_latency -mori"),
        ("0.24.0", "+deepep_v2"),
        ("0.31.0", "+moonep"),
    ),
    "anthropic_disabled_thinking_effort": (
        ("0.31.0", "auto high low max medium none xhigh"),
    ),
    "attention_config.flash_attn_version": (
        ("0.13.0", "2 3"),
        ("0.18.0", "+4"),
    ),
    "attention_config.indexer_kv_dtype": (
        ("0.24.0", "bf16 fp8 mxfp4 nvfp4"),
        ("0.28.0", "+auto"),
        ("0.33.0", "*"),
    ),
    "attention_config.minimax_m3_msa_decode_backend": (
        ("0.28.0", "cutlass triton"),
    ),
    "attention_config.trtllm_ragged_backend": (
        ("0.33.0", "cute-dsl trtllm-gen"),
    ),
    "block_size": (
        ("0.6.0", "16 32 8"),
        ("0.6.4", "+128 +64"),
        ("0.6.5", "16 32 8"),
        ("0.6.6", "+128 +64"),
        ("0.8.5", "+1"),
        ("0.12.0", "+256"),
        ("0.18.0", "*"),
    ),
    "chat_template_content_format": (
        ("0.6.5", "auto openai string"),
    ),
    "chat_template_text_format": (
        ("0.6.4", "openai string"),
        ("0.6.5", "*"),
    ),
    "collect_detailed_traces": (
        ("0.9.0", "None all all,model all,worker model model,all model,worker worker worker,all worker,model"),
        ("0.31.0", "None all model worker"),
    ),
    "compilation_config.compile_cache_save_format": (
        ("0.12.0", "binary unpacked"),
    ),
    "config_format": (
        ("0.6.3", "auto hf mistral"),
        ("0.10.2", "*"),
    ),
    "convert": (
        ("0.10.2", "auto classify embed none reward"),
        ("0.14.0", "+mm_encoder_only"),
        ("0.16.0", "auto classify embed none"),
    ),
    "dcp_comm_backend": (
        ("0.18.0", "a2a ag_rs"),
        ("0.29.0", "+None"),
    ),
    "device": (
        ("0.6.0", "auto cpu cuda neuron openvino tpu xpu"),
        ("0.6.4", "+hpu"),
        ("0.8.2", "-openvino"),
        ("0.9.2", "+None"),
        ("0.10.0", "*"),
    ),
    "distributed_executor_backend": (
        ("0.6.0", "mp ray"),
        ("0.7.0", "+external_launcher +uni"),
        ("0.8.5", "+None"),
        ("0.10.2", "*"),
    ),
    "dtype": (
        ("0.6.0", "auto bfloat16 float float16 float32 half"),
    ),
    "ec_transfer_config.ec_role": (
        ("0.12.0", "ec_consumer ec_producer"),
        ("0.18.0", "+ec_both"),
    ),
    "eplb_config.communicator": (
        ("0.20.2", "nixl pynccl torch_gloo torch_nccl"),
        ("0.32.0", "+torch_xccl"),
    ),
    "eplb_config.policy": (
        ("0.13.0", "default"),
    ),
    "expert_placement_strategy": (
        ("0.11.0", "linear round_robin"),
    ),
    "fingerprint_mode": (
        ("0.21.0", "custom full hash none"),
    ),
    "gdn_prefill_backend": (
        ("0.18.0", "flashinfer triton"),
        ("0.22.1", "+cutedsl"),
        ("0.32.0", "+aiter_flydsl"),
        ("0.33.0", "+sycl"),
    ),
    "guided_decoding_backend": (
        ("0.6.0", "lm-format-enforcer outlines"),
        ("0.6.5", "+xgrammar"),
        ("0.8.0", "*"),
        ("0.8.5", "auto guidance lm-format-enforcer outlines xgrammar"),
        ("0.11.0", "*"),
    ),
    "jit_monitor_mode": (
        ("0.25.0", "error warn"),
    ),
    "kda_decode_backend": (
        ("0.30.0", "auto flashinfer native triton"),
    ),
    "kda_prefill_backend": (
        ("0.27.0", "auto flashkda triton"),
        ("0.30.0", "+flashinfer +fused"),
    ),
    "kernel_config.linear_backend": (
        ("0.22.1",
         "aiter auto conch cutlass deep_gemm emulation exllama fbgemm flashinfer_cudnn flashinfer_cutlass "
         "flashinfer_trtllm machete marlin torch triton"),
        ("0.24.0", "+flashinfer_b12x +flashinfer_cutedsl"),
        ("0.28.0", "+b12x +humming +xpu +xpu_woq"),
    ),
    "kernel_config.moe_backend": (
        ("0.18.0",
         "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm marlin triton"),
        ("0.20.2", "+deep_gemm_mega_moe +emulation"),
        ("0.22.1", "+flashinfer_b12x +humming +triton_unfused"),
        ("0.24.0", "+flydsl"),
        ("0.28.0", "+batched_triton +hpc"),
        ("0.32.0",
         "+aiter_mega_moe +aiter_triton_mxfp4_bf16 +b12x +flashinfer_moe_ep_cutedsl "
         "+flashinfer_moe_ep_mega_deep_gemm +rdna3"),
        ("0.33.0", "+aiter_triton_mxfp4_mxfp4"),
    ),
    "kernel_config.sparse_indexer_topk_backend": (
        ("0.32.0", "aiter auto cooperative deep_select flashinfer per_row persistent torch"),
    ),
    "kv_cache_dtype": (
        ("0.6.0", "auto fp8 fp8_e4m3 fp8_e5m2"),
        ("0.10.0", "+fp8_inc"),
        ("0.11.0", "+bfloat16"),
        ("0.12.0", "+fp8_ds_mla"),
        ("0.18.0", "+float16"),
        ("0.20.0",
         "+fp8_per_token_head +int8_per_token_head +nvfp4 +turboquant_3bit_nc +turboquant_4bit_nc "
         "+turboquant_k3v4_nc +turboquant_k8v4"),
        ("0.25.0", "+int4_per_token_head"),
        ("0.28.0", "+nvfp4_4over6"),
        ("0.30.0", "+nvfp4_ds_mla"),
        ("0.32.0", "+ultraquant_4bit"),
        ("0.33.0", "*"),
    ),
    "kv_events_config.publisher": (
        ("0.12.0", "null zmq"),
    ),
    "kv_offloading_backend": (
        ("0.12.0", "None lmcache native"),
        ("0.14.0", "-None"),
    ),
    "kv_transfer_config.kv_load_failure_policy": (
        ("0.13.0", "fail recompute"),
    ),
    "kv_transfer_config.kv_role": (
        ("0.10.2", "kv_both kv_consumer kv_producer"),
    ),
    "linear_backend": (
        ("0.22.1",
         "aiter auto conch cutlass deep_gemm emulation exllama fbgemm flashinfer_cudnn flashinfer_cutlass "
         "flashinfer_trtllm machete marlin torch triton"),
        ("0.24.0", "+flashinfer_b12x +flashinfer_cutedsl"),
        ("0.25.0", "+humming +xpu +xpu_woq"),
        ("0.28.0", "+b12x"),
    ),
    "load_format": (
        ("0.6.0", "auto bitsandbytes dummy gguf npcache pt safetensors sharded_state tensorizer"),
        ("0.6.3", "+mistral"),
        ("0.6.6", "+runai_streamer"),
        ("0.8.2", "+fastsafetensors"),
        ("0.8.5", "+runai_streamer_sharded"),
        ("0.10.2", "*"),
    ),
    "log_level": (
        ("0.31.0", "CRITICAL DEBUG ERROR INFO NOTSET WARNING"),
    ),
    "logging_config.formatter": (
        ("0.32.0", "json text"),
    ),
    "logging_config.log_level": (
        ("0.32.0", "CRITICAL DEBUG ERROR INFO NOTSET WARNING"),
    ),
    "logprobs_mode": (
        ("0.10.0", "processed_logits processed_logprobs raw_logits raw_logprobs"),
    ),
    "lora_dtype": (
        ("0.6.0", "auto bfloat16 float16 float32"),
        ("0.6.5", "-float32"),
    ),
    "mamba_cache_dtype": (
        ("0.10.2", "auto float32"),
        ("0.13.0", "+float16"),
        ("0.22.1", "+bfloat16"),
    ),
    "mamba_cache_mode": (
        ("0.16.0", "align all none"),
        ("0.32.0", "-all"),
    ),
    "mamba_ssm_cache_dtype": (
        ("0.10.2", "auto float32"),
        ("0.13.0", "+float16"),
        ("0.22.1", "+bfloat16"),
    ),
    "mamba_ssu_algorithm": (
        ("0.27.0", "None auto horizontal simple vertical"),
    ),
    "max_lora_rank": (
        ("0.12.0", "1 128 16 256 32 320 512 64 8"),
    ),
    "mm_encoder_attn_dtype": (
        ("0.21.0", "None fp8"),
    ),
    "mm_encoder_tp_mode": (
        ("0.10.2", "data weights"),
    ),
    "mm_hasher_algorithm": (
        ("0.27.0", "blake3 sha256 sha512"),
    ),
    "mm_processor_cache_type": (
        ("0.11.0", "lru shm"),
    ),
    "mm_processor_device": (
        ("0.28.0", "auto cpu"),
    ),
    "mm_tensor_ipc": (
        ("0.19.0", "direct_rpc torch_shm"),
    ),
    "model_impl": (
        ("0.7.2", "auto transformers vllm"),
        ("0.10.2", "+terratorch"),
        ("0.11.0", "*"),
    ),
    "moe_backend": (
        ("0.17.0",
         "aiter auto cutlass deep_gemm flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm marlin triton"),
        ("0.20.0", "+deep_gemm_mega_moe +emulation"),
        ("0.21.0", "+humming +triton_unfused"),
        ("0.22.1", "+flashinfer_b12x"),
        ("0.24.0", "+flydsl"),
        ("0.25.0", "+hpc"),
        ("0.27.0", "+batched_triton"),
        ("0.29.0", "+b12x +flashinfer_moe_ep_mega_cutedsl +flashinfer_moe_ep_mega_deep_gemm"),
        ("0.30.0", "+aiter_triton_mxfp4_bf16 +rdna3"),
        ("0.32.0", "+aiter_mega_moe +flashinfer_moe_ep_cutedsl -flashinfer_moe_ep_mega_cutedsl"),
        ("0.33.0", "+aiter_triton_mxfp4_mxfp4"),
    ),
    "offload_backend": (
        ("0.17.0", "auto prefetch uva"),
    ),
    "per_request_spec_decode_metrics": (
        ("0.29.0", "detailed none summary"),
    ),
    "performance_mode": (
        ("0.17.0", "balanced interactivity throughput"),
    ),
    "pooler_config.pooling_type": (
        ("0.12.0", "ALL CLS LAST MEAN STEP"),
    ),
    "pooler_config.seq_pooling_type": (
        ("0.14.1", "CLS LAST MEAN"),
    ),
    "pooler_config.task": (
        ("0.20.2", "classify embed embed&token_classify plugin token_classify token_embed"),
    ),
    "pooler_config.tok_pooling_type": (
        ("0.14.1", "ALL STEP"),
    ),
    "preemption_mode": (
        ("0.8.5", "None recompute swap"),
        ("0.11.0", "*"),
    ),
    "prefix_caching_hash_algo": (
        ("0.8.3", "builtin sha256"),
        ("0.10.0", "+sha256_cbor_64bit"),
        ("0.10.2", "sha256 sha256_cbor"),
        ("0.13.0", "+xxhash +xxhash_cbor"),
    ),
    "profiler_config.profiler": (
        ("0.13.0", "cuda torch"),
        ("0.28.0", "+proton"),
    ),
    "profiler_config.proton_backend": (
        ("0.28.0", "cupti"),
    ),
    "profiler_config.proton_context": (
        ("0.28.0", "python shadow"),
    ),
    "profiler_config.proton_data": (
        ("0.28.0", "trace tree"),
    ),
    "profiler_config.proton_hook": (
        ("0.28.0", "triton"),
    ),
    "profiler_config.proton_output_format": (
        ("0.28.0", "chrome_trace hatchet hatchet_msgpack"),
    ),
    "quantization": (
        ("0.6.0",
         "None aqlm awq awq_marlin bitsandbytes compressed-tensors deepspeedfp experts_int8 fbgemm_fp8 fp8 gguf "
         "gptq gptq_marlin gptq_marlin_24 marlin neuron_quant qqq squeezellm tpu_int8"),
        ("0.6.3", "+ipex +modelopt -squeezellm"),
        ("0.6.5", "+hqq"),
        ("0.7.0", "+quark"),
        ("0.7.1", "+moe_wna16"),
        ("0.7.3", "+ptpc_fp8"),
        ("0.8.0", "+nvfp4"),
        ("0.8.4", "+torchao"),
        ("0.8.5", "+bitblas +gptq_bitblas"),
        ("0.9.0", "+auto-round +modelopt_fp4 -nvfp4"),
        ("0.9.2", "*"),
    ),
    "reasoning_parser": (
        ("0.8.0", "deepseek_r1"),
        ("0.8.3", "+granite"),
        ("0.9.0", "+qwen3"),
        ("0.10.0", "+glm4_moe +hunyuan_a13b +mistral"),
        ("0.10.2", "+glm45 +openai_gptoss +step3 -glm4_moe"),
        ("0.11.0", "+seed_oss"),
        ("0.12.0", "*"),
    ),
    "runner": (
        ("0.10.2", "auto draft generate pooling"),
    ),
    "safetensors_load_strategy": (
        ("0.24.0", "None eager lazy prefetch torchao"),
    ),
    "scheduling_policy": (
        ("0.6.3", "fcfs priority"),
    ),
    "sparse_indexer_topk_backend": (
        ("0.30.0", "auto cooperative deep_select flashinfer per_row persistent torch"),
        ("0.32.0", "+aiter"),
    ),
    "spec_decoding_acceptance_method": (
        ("0.6.0", "rejection_sampler typical_acceptance_sampler"),
        ("0.8.3", "*"),
    ),
    "spec_method": (
        ("0.22.1",
         "None custom_class deepseek_mtp dflash draft_model eagle eagle3 ernie_mtp exaone4_5_mtp exaone_moe_mtp "
         "extract_hidden_states gemma4_mtp glm4_moe_lite_mtp glm4_moe_mtp glm_ocr_mtp hy_v3_mtp longcat_flash_mtp "
         "medusa mimo_mtp mimo_v2_mtp mlp_speculator mtp nemotron_h_mtp ngram ngram_gpu pangu_ultra_moe_mtp "
         "qwen3_5_mtp qwen3_next_mtp step3p5_mtp suffix"),
        ("0.24.0", "+minimax_m3_mtp"),
        ("0.25.0", "+bailing_hybrid_mtp +dspark"),
        ("0.26.0", "+inkling_mtp"),
        ("0.27.0", "+kimi_k3_mtp"),
        ("0.28.0", "+bailing_hybrid_v3_mtp +dots3_note_mtp"),
        ("0.29.0", "+hy_v4_mtp +qwen4_exp_mtp"),
        ("0.30.0", "+glm5_next_mtp"),
        ("0.33.0", "+step5_mtp -medusa -mlp_speculator"),
    ),
    "speculative_config.draft_lm_head_quantization": (
        ("0.33.0", "fp8 nvfp4"),
    ),
    "speculative_config.draft_sample_method": (
        ("0.22.1", "greedy probabilistic"),
    ),
    "speculative_config.kv_cache_dtype": (
        ("0.28.0",
         "auto bfloat16 float16 fp8 fp8_ds_mla fp8_e4m3 fp8_e5m2 fp8_inc fp8_per_token_head int4_per_token_head "
         "int8_per_token_head nvfp4 nvfp4_4over6 turboquant_3bit_nc turboquant_4bit_nc turboquant_k3v4_nc "
         "turboquant_k8v4"),
        ("0.32.0", "+nvfp4_ds_mla +ultraquant_4bit"),
        ("0.33.0", "*"),
    ),
    "speculative_config.method": (
        ("0.10.2", "deepseek_mtp draft_model eagle eagle3 ernie_mtp medusa mlp_speculator ngram qwen3_next_mtp"),
        ("0.11.0", "+longcat_flash_mtp +mimo_mtp +mtp"),
        ("0.12.0", "+glm4_moe_mtp +pangu_ultra_moe_mtp +suffix"),
        ("0.14.1", "+exaone_moe_mtp"),
        ("0.16.0", "+glm4_moe_lite_mtp +glm_ocr_mtp +step3p5_mtp"),
        ("0.18.0", "+extract_hidden_states +nemotron_h_mtp +ngram_gpu +qwen3_5_mtp"),
        ("0.20.2", "+dflash +exaone4_5_mtp +hy_v3_mtp"),
        ("0.22.1", "+custom_class +gemma4_mtp +mimo_v2_mtp"),
        ("0.24.0", "+minimax_m3_mtp"),
        ("0.28.0", "+bailing_hybrid_mtp +bailing_hybrid_v3_mtp +dots3_note_mtp +dspark +inkling_mtp +kimi_k3_mtp"),
        ("0.32.0", "+glm5_next_mtp +hy_v4_mtp +qwen4_exp_mtp"),
        ("0.33.0", "+step5_mtp -medusa -mlp_speculator"),
    ),
    "speculative_config.moe_backend": (
        ("0.20.2",
         "aiter auto cutlass deep_gemm deep_gemm_mega_moe emulation flashinfer_cutedsl flashinfer_cutlass "
         "flashinfer_trtllm marlin triton"),
        ("0.22.1", "+flashinfer_b12x +humming +triton_unfused"),
        ("0.24.0", "+flydsl"),
        ("0.28.0", "+batched_triton +hpc"),
        ("0.32.0",
         "+aiter_mega_moe +aiter_triton_mxfp4_bf16 +b12x +flashinfer_moe_ep_cutedsl "
         "+flashinfer_moe_ep_mega_deep_gemm +rdna3"),
        ("0.33.0", "+aiter_triton_mxfp4_mxfp4"),
    ),
    "speculative_config.quantization": (
        ("0.10.2",
         "auto-round awq awq_marlin bitblas bitsandbytes compressed-tensors deepspeedfp experts_int8 fbgemm_fp8 "
         "fp8 gguf gptq gptq_bitblas gptq_marlin gptq_marlin_24 hqq inc ipex modelopt modelopt_fp4 moe_wna16 mxfp4 "
         "petit_nvfp4 ptpc_fp8 quark rtn torchao tpu_int8"),
        ("0.12.0", "+cpu_awq +cpu_gptq +fp_quant"),
        ("0.14.1", "-cpu_gptq -tpu_int8"),
        ("0.16.0", "+modelopt_mxfp8 -auto-round -bitblas -deepspeedfp -gptq_bitblas -gptq_marlin_24 -hqq -ipex -rtn"),
        ("0.18.0", "+modelopt_mixed"),
        ("0.20.2", "*"),
    ),
    "speculative_config.rejection_sample_method": (
        ("0.18.0", "probabilistic strict"),
        ("0.20.2", "+synthetic"),
        ("0.22.1", "standard synthetic"),
        ("0.28.0", "+block"),
        ("0.33.0", "+fly"),
    ),
    "speculative_model_quantization": (
        ("0.6.0",
         "None aqlm awq awq_marlin bitsandbytes compressed-tensors deepspeedfp experts_int8 fbgemm_fp8 fp8 gguf "
         "gptq gptq_marlin gptq_marlin_24 marlin neuron_quant qqq squeezellm tpu_int8"),
        ("0.6.3", "+ipex +modelopt -squeezellm"),
        ("0.6.5", "+hqq"),
        ("0.7.0", "+quark"),
        ("0.7.1", "+moe_wna16"),
        ("0.7.3", "+ptpc_fp8"),
        ("0.8.0", "+nvfp4"),
        ("0.8.3", "*"),
    ),
    "structured_outputs_config.backend": (
        ("0.11.0", "auto guidance lm-format-enforcer outlines xgrammar"),
    ),
    "task": (
        ("0.6.4", "auto embedding generate"),
        ("0.6.5", "+classify +embed +reward +score"),
        ("0.7.3", "+transcription"),
        ("0.9.0", "+draft"),
        ("0.10.2", "+None"),
        ("0.13.0", "*"),
    ),
    "tokenizer_mode": (
        ("0.6.0", "auto mistral slow"),
        ("0.7.3", "+custom"),
        ("0.12.0", "*"),
    ),
    "tool_call_parser": (
        ("0.6.0", "hermes mistral"),
        ("0.6.3", "*"),
        ("0.10.0",
         "deepseek_v3 glm4_moe granite granite-20b-fc hermes hunyuan_a13b internlm jamba kimi_k2 llama3_json "
         "llama4_json llama4_pythonic minimax mistral phi4_mini_json pythonic qwen3_coder xlam"),
        ("0.10.2", "*"),
    ),
    "tool_strict_level": (
        ("0.31.0", "auto function parameter"),
        ("0.33.0", "+None"),
    ),
    "uvicorn_log_level": (
        ("0.6.0", "critical debug error info trace warning"),
    ),
    "video_pruning_method": (
        ("0.27.0", "evs vidcom2"),
    ),
    "weight_transfer_config.backend": (
        ("0.16.0", "nccl"),
        ("0.18.0", "+ipc"),
        ("0.22.1", "*"),
    ),
}  # fmt: skip
"""Option, or path of a key inside an option's JSON -> the values that it takes, by release."""
