"""Variables of single engines: engine, class, what they move, names. The marks are those of `below`.

`name>=X` and `name<=X` hold the first and last release that was seen to read it.
"""

from __future__ import annotations

ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("sglang", "numerics", "the deterministic mode and its all-reduce",
     ("SGLANG_ENABLE_DETERMINISTIC_INFERENCE>=0.5.3 SGLANG_USE_1STAGE_ALLREDUCE>=0.5.7 "
     "SGLANG_DETERMINISTIC_NCCL_NCHANNELS>=0.5.18")),
    ("sglang", "numerics", "batch-invariant products",
     "SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_DEEPGEMM>=0.5.5 SGLANG_BATCH_INVARIANT_OPS_ENABLE_MM_FALLBACK_VARIANT>=0.5.6"),
    ("sglang", "numerics", "fixed split sizes: other reduction orders",
     ("SGLANG_FLASHINFER_PREFILL_SPLIT_TILE_SIZE>=0.5.3 SGLANG_FLASHINFER_DECODE_SPLIT_TILE_SIZE>=0.5.3 "
     "SGLANG_TRITON_PREFILL_TRUNCATION_ALIGN_SIZE>=0.5.3 SGLANG_TRITON_DECODE_SPLIT_TILE_SIZE>=0.5.3 "
     "SGLANG_TRITON_DECODE_ATTN_STATIC_KV_SPLITS<=0.4.6")),
    ("sglang", "numerics", "sparse attention selects other tokens on ties",
     "SGLANG_DSA_TOPK_FLASHINFER_DETERMINISTIC>=0.5.14 SGLANG_DSA_TOPK_FLASHINFER_TIE_BREAK>=0.5.14"),
    ("sglang", "numerics", "another all-reduce kernel",
     "SGLANG_OPT_USE_CUSTOM_ALL_REDUCE_V2>=0.5.12 SGLANG_ENABLE_PCIE_IPC_ALLREDUCE>=0.5.20 SGLANG_M3_ALLOW_CUSTOM_AR>=0.5.20"),
    ("sglang", "numerics", "other matrix-product kernels",
     ("SGLANG_ENABLE_JIT_DEEPGEMM>=0.5.3 SGLANG_USE_DEEPGEMM_BMM>=0.5.3 SGLANG_DG_USE_NVRTC>=0.5.3 "
     "SGLANG_ENABLE_BF16_SPLITK_GEMM>=0.5.16 SGLANG_OPT_BF16_FP32_GEMM_ALGO>=0.5.16")),
    ("sglang", "numerics", "another family of kernels",
     ("SGLANG_FORCE_FUSED_OP_BACKEND>=0.5.12 SGLANG_USE_SGL_FA3_KERNEL>=0.5.12 SGLANG_HACK_FLASHMLA_BACKEND>=0.5.12 "
     "SGLANG_TRITON_FP8_PREFILL_ATTN>=0.5.20 SGLANG_TRITON_DENSE_PREFILL_ATTN>=0.5.20")),
    ("sglang", "numerics", "other kernels of quantized layers",
     ("SGLANG_FORCE_FP8_MARLIN>=0.5.4 SGLANG_INT4_WEIGHT>=0.4.2 SGLANG_CUTLASS_MOE>=0.4.8<=0.5.20 SGLANG_MOE_PADDING>=0.4.2 "
     "USE_TRITON_W8A8_FP8_KERNEL>=0.4.8 SGLANG_SUPPORT_CUTLASS_BLOCK_FP8>=0.4.2<=0.5.9 "
     "SGLANG_ENABLE_FLASHINFER_FP8_GEMM>=0.5.3<=0.5.9")),
    ("sglang", "numerics", "tuned tables: other tiles",
     "SGLANG_ENABLE_FP8_GEMM_CONFIG_TUNE>=0.5.18 @SGLANG_MOE_CONFIG_DIR>=0.5.3 @SGLANG_LORA_MOE_CONFIG_DIR>=0.5.23"),
    ("sglang", "numerics", "the precision that travels, and atomic sums",
     ("SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE>=0.5.20 SGLANG_FLASHINFER_MOE_FUSED_FINALIZE>=0.5.20 "
     "SGLANG_FLASHINFER_MEGAMOE_IN_KERNEL_FC2_REDUCE>=0.5.20 SGLANG_ENABLE_DP_GATHER_FP8>=0.5.12 "
     "SGLANG_DEEPEP_BF16_DISPATCH>=0.5.3 SGLANG_OPT_MOE_QUANT_ONCE>=0.5.18")),
    ("sglang", "numerics", "states and weights in another precision",
     ("SGLANG_MAMBA_CONV_DTYPE>=0.5.2 SGLANG_MAMBA_SSM_DTYPE>=0.5.2 SGLANG_ROPE_CACHE_FP32>=0.5.12 "
     "SGLANG_DSV4_COMPRESS_STATE_DTYPE>=0.5.20 SGLANG_DSV4_FP4_DEQUANT>=0.5.20 SGLANG_DSV4_FP4_EXPERTS>=0.5.20 "
     "SGLANG_HUMMING_ONLINE_QUANT_CONFIG>=0.5.20")),
    ("sglang", "numerics", "kernels on ROCm", "SGLANG_USE_AITER>=0.4.8 SGLANG_AITER_* SGLANG_ROCM_*"),
    ("sglang", "prompt", "reasoning mode and effort where a request says nothing",
     ("SGLANG_DEFAULT_THINKING>=0.5.12 SGLANG_MAX_THINK_TOKENS>=0.5.12 SGLANG_DSV4_REASONING_EFFORT>=0.5.12 "
     "SGLANG_DSV41_REASONING_EFFORT>=0.5.20 SGLANG_INKLING_DEFAULT_REASONING_EFFORT>=0.5.20")),
    ("sglang", "prompt", "other tokens go in",
     ("SGLANG_PATCH_TOKENIZER>=0.5.4 SGLANG_MM_AVOID_RETOKENIZE>=0.5.20 SGLANG_IMAGE_MAX_PIXELS>=0.5.4 "
     "SGLANG_RESIZE_RESAMPLE>=0.5.4 VIDEO_MAX_PIXELS>=0.5.4 SGLANG_FORWARD_UNKNOWN_TOOLS>=0.5.5 SGLANG_TOOL_STRICT_LEVEL>=0.5.5")),
    ("sglang", "sampling", "tokens are drawn or reported otherwise",
     ("SGLANG_RETURN_ORIGINAL_LOGPROB>=0.5.3 SGLANG_SANITIZE_NAN_LOGITS>=0.5.14 SGLANG_SYNC_TOKEN_IDS_ACROSS_TP>=0.5.3 "
     "SGLANG_SPEC_TP_SYNC>=0.5.12 SGLANG_ENABLE_LILICORR_SAMPLING>=0.5.20 SGLANG_MAX_NEW_TOKENS_LIMIT>=0.5.12")),
    ("sglang", "forbidden", "results are falsified or a fix is undone",
     ("SGLANG_SIMULATE_* SGLANG_TEST_* SGLANG_KV_CANARY_PERTURB_* SGLANG_DEBUG_REVERT_PR SGLANG_RADIX_FORCE_MISS "
     "SGLANG_DEBUG_POISON_POOL")),
    ("sglang", "identity", "where the model and its code come from",
     ("SGLANG_USE_MODELSCOPE>=0.3.4 SGLANG_EXTERNAL_MODEL_PACKAGE>=0.4.2 SGLANG_PLUGINS>=0.5.3 SGLANG_PLATFORM>=0.5.16 "
     "SGLANG_DISABLED_MODEL_ARCHS>=0.5.12 SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN>=0.3.4 SGLANG_RUST_SERVER>=0.5.16")),
    ("sglang", "scheduling", "batches and chunks are formed otherwise",
     ("SGLANG_INIT_NEW_TOKEN_RATIO SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION>=0.3.4 SGLANG_PREFILL_* "
     "SGLANG_CHUNKED_PREFIX_CACHE_THRESHOLD>=0.4.8")),
    ("sglang", "noise", "", ("SGLANG_EXPOSE_OWN_ENV_VARS SGLANG_LOG* SGLANG_HOST* SGLANG_PORT* SGLANG_TORCH_PROFILER_DIR "
     "SGLANG_TIMEOUT* SGLANG_CACHE_DIR SGLANG_HEALTH_CHECK_TIMEOUT SGLANG_RECORD_STEP_TIME")),
    ("llama.cpp", "numerics", "other kernels, precision or fusion",
     ("GGML_CUDA_CUBLAS_COMPUTE_TYPE GGML_CUDA_MMQ_PREC GGML_CUDA_ALLREDUCE GGML_CUDA_P2P GGML_CUDA_DISABLE_FUSION "
     "GGML_CUDA_DISABLE_GRAPHS GGML_CUDA_GRAPH_OPT GGML_CUDA_PDL GGML_CUDA_ENABLE_UNIFIED_MEMORY GGML_CUDA_FORCE_MMQ "
     "GGML_CUDA_FORCE_CUBLAS GGML_CPU_DISABLE_FUSION GGML_CPU_TILED_MM GGML_CPU_TILED_MM_FORCE GGML_OP_OFFLOAD_MIN_BATCH "
     "GGML_KLEIDIAI_SME GGML_DISABLE_VULKAN LLAMA_GRAPH_REUSE_DISABLE GGML_METAL_* GGML_VK_DISABLE_* GGML_VK_FORCE_* "
     "GGML_OPENCL_*")),
    ("llama.cpp", "numerics", "the KV cache is not rotated", "LLAMA_ATTN_ROT_DISABLE"),
    ("llama.cpp", "prompt", "templates that read the clock tell another time", "TZ"),
    ("ollama", "numerics", "precision of the KV cache, attention and backend",
     ("OLLAMA_KV_CACHE_TYPE OLLAMA_FLASH_ATTENTION OLLAMA_LLM_LIBRARY OLLAMA_VULKAN OLLAMA_LLAMA_CPP_COMPAT "
     "OLLAMA_NEW_ENGINE OLLAMA_INTEL_GPU OLLAMA_EXPERIMENT")),
    ("ollama", "prompt", "the context, and with it where prompts are cut", "OLLAMA_CONTEXT_LENGTH"),
    ("ollama", "prompt", "another renderer writes the prompt", "OLLAMA_GO_TEMPLATE"),
    ("ollama", "scheduling", "batches and memory are shared otherwise",
     ("OLLAMA_NUM_PARALLEL OLLAMA_SCHED_SPREAD OLLAMA_GPU_OVERHEAD OLLAMA_MAX_LOADED_MODELS OLLAMA_IGPU_ENABLE "
     "OLLAMA_MULTIUSER_CACHE")),
    ("ollama", "identity", "answers may come from elsewhere", "OLLAMA_REMOTES OLLAMA_NO_CLOUD"),
    ("tgi", "numerics", "other attention and quantization kernels",
     ("ATTENTION USE_FLASH_ATTENTION EXLLAMA_VERSION DISABLE_EXLLAMA ROCM_USE_FLASH_ATTN_V2_TRITON "
     "ROCM_USE_CUSTOM_PAGED_ATTN ROCM_USE_SKINNY_GEMM FLASH_ATTENTION_RECOMPUTE")),
    ("tgi", "scheduling", "prefixes are shared, prompts cut and memory left otherwise",
     "PREFIX_CACHING USE_PREFIX_CACHING PREFILL_CHUNKING TGI_WIGGLE_ROOM"),
    ("tensorrt-llm", "numerics", "deterministic kernels",
     ("FORCE_DETERMINISTIC FORCE_MOE_KERNEL_DETERMINISTIC FORCE_ATTENTION_KERNEL_DETERMINISTIC FORCE_ALL_REDUCE_DETERMINISTIC "
     "FORCE_ALLREDUCE_KERNEL_WORKSPACE_SIZE")),
    ("tensorrt-llm", "numerics", "other attention and expert kernels",
     ("TRTLLM_FORCE_XQA TRTLLM_ENABLE_XQA_JIT TRTLLM_XQA_BLOCKS_PER_SEQUENCE TRTLLM_ENABLE_MMHA_MULTI_BLOCK_DEBUG "
     "TRTLLM_MMHA_BLOCKS_PER_SEQUENCE TRTLLM_MMHA_KERNEL_BLOCK_SIZE TRTLLM_GEN_ENABLE_TILE_SIZE_KV64 "
     "TRTLLM_MOE_DISABLE_FINALIZE_FUSION TRTLLM_DISABLE_CHUNKED_ATTENTION_IN_GEN_PHASE XQA_NB_SUB_SEQ "
     "TRTLLM_DISABLE_FP4_QUANT_FAST_MATH")),
    ("tensorrt-llm", "scheduling", "kernels overlap otherwise", "TRTLLM_ENABLE_PDL TRTLLM_KVCACHE_*"),
    ("tensorrt-llm", "prompt", "prompts of gpt-oss are written otherwise", "DISABLE_HARMONY_ADAPTER"),
    ("tensorrt-llm", "sampling", "several greedy answers are allowed", "TLLM_ALLOW_N_GREEDY_DECODING"),
    ("lmdeploy", "numerics", "other kernels of quantized layers, attention and all-reduce",
     ("LMDEPLOY_BLOCKED_FP8_GEMM_BACKEND LMDEPLOY_W4A16_GEMM_BACKEND LMDEPLOY_STATIC_FP8_USE_SCALED_MM "
     "LMDEPLOY_STATIC_FP8_USE_COMPILED_QUANT LMDEPLOY_MOE_STATIC_FP8_USE_COMPILED_QUANT LMDEPLOY_ROUTER_SINGLE_GROUP_FUSED "
     "LMDEPLOY_FP8_MOE_ONLY LMDEPLOY_SCALE_FMT LMDEPLOY_FP32_MAMBA_SSM_DTYPE LMDEPLOY_SPARSE_MLA_BACKEND "
     "LMDEPLOY_DISABLE_DSA_INDEXER_FUSION LMDEPLOY_ENABLE_DECODE_TORCH_COMPILE LMDEPLOY_ENABLE_FLASHINFER_ALLREDUCE "
     "LMDEPLOY_ENABLE_SYMM_MEM_ALLREDUCE LMDEPLOY_ENABLE_SYMM_MEM_LMHEAD DEEPEP_MODE")),
    ("lmdeploy", "scheduling", "requests and workers are scheduled otherwise",
     "LMDEPLOY_PT_TTFT_POLICY LMDEPLOY_EXECUTOR_BACKEND"),
    ("lmdeploy", "identity", "where the weights come from",
     "LMDEPLOY_USE_MODELSCOPE LMDEPLOY_USE_OPENMIND_HUB LMDEPLOY_RANDOM_LOAD_WEIGHT"),
)  # fmt: skip
