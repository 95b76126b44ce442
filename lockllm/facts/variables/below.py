"""Variables below the engines: CUDA, cuBLAS, NCCL, PyTorch, Triton, FlashInfer, ROCm, CPU math, Hugging Face.

Class, what they move, names. A name that begins with `@` names a file or folder whose content counts, one with `~` is
never read into a value: it is resolved into other facts. `*` stands for any ending.
"""

from __future__ import annotations

ROWS: tuple[tuple[str, str, str], ...] = (
    ("numerics", "TF32 is off in cuBLAS and cuDNN whatever the program asks", "NVIDIA_TF32_OVERRIDE"),
    ("placement", "", ("~CUDA_VISIBLE_DEVICES ~CUDA_DEVICE_ORDER ~NVIDIA_VISIBLE_DEVICES ~ROCR_VISIBLE_DEVICES "
     "~HIP_VISIBLE_DEVICES ~GPU_DEVICE_ORDINAL ~ZE_AFFINITY_MASK ~ONEAPI_DEVICE_SELECTOR ~GGML_VK_VISIBLE_DEVICES "
     "~GGML_CUDA_DEVICES")),
    ("identity", "a driver that is too old is let through", "NVIDIA_DISABLE_REQUIRE"),
    ("identity", "what the container runtime mounts and checks", "~NVIDIA_DRIVER_CAPABILITIES ~NVIDIA_REQUIRE_*"),
    ("code", "other libraries are loaded, or loaded first",
     "LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH_64 GCONV_PATH GLIBC_TUNABLES"),
    ("code", "Python starts with other code, or finds other modules first",
     ("PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONUSERBASE PYTHONPLATLIBDIR PYTHONPYCACHEPREFIX PYTHONNOUSERSITE PYTHONSAFEPATH "
     "PYTHONBREAKPOINT PYTHONEXECUTABLE PYTHONCASEOK PYTHONOPTIMIZE PYTHONWARNINGS PYTHONINSPECT PYTHONPERFSUPPORT")),
    ("code", "copies of remote code and compiled kernels are taken from there", "HF_MODULES_CACHE TRITON_CACHE_DIR TRITON_HOME"),
    ("identity", "other compilers are found first", "~CUDA_HOME ~CUDA_PATH ~ROCM_PATH ~GGML_BACKEND_PATH"),
    ("numerics", "the driver compiles kernels in place of those that were shipped", "CUDA_FORCE_PTX_JIT CUDA_DISABLE_PTX_JIT"),
    ("numerics", "fewer multiprocessors: work is cut into other tiles",
     "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING"),
    ("scheduling", "kernels overlap otherwise", "CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING CUDA_SCALE_LAUNCH_QUEUES"),
    ("numerics", "tensor cores and emulation are chosen otherwise", "CUDA_ENABLE_TENSOR_CORES CUDA_EMULATION_*"),
    ("noise", "", ("CUDA_MODULE_LOADING CUDA_CACHE_* CUDA_COREDUMP_* CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY "
     "CUDA_VERSION NV_* NCCL_VERSION")),
    ("numerics", "cuBLAS repeats its results with several streams, or does not", "CUBLAS_WORKSPACE_CONFIG"),
    ("numerics", "limits of the workspace leave other algorithms to choose from",
     "CUBLASLT_WORKSPACE_SIZE TORCH_CUBLASLT_UNIFIED_WORKSPACE"),
    ("numerics", "FP32 and FP64 products are emulated in lower precision",
     ("CUBLAS_EMULATE_SINGLE_PRECISION CUBLAS_EMULATE_DOUBLE_PRECISION CUBLAS_EMULATION_STRATEGY "
     "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT")),
    ("numerics", "other algorithms of cuBLAS or cuDNN are chosen",
     "@CUBLASLT_HEURISTICS_LUT_FILE CUBLAS_FORCE_XMMA_KERNEL_INIT @CUDNN_ERRATA_JSON_FILE CUDNN_FORWARD_COMPAT_DISABLE"),
    ("noise", "", ("CUBLASLT_DISABLE_CPU_INSTRUCTIONS_MASK CUBLAS_AUTOTUNING_CACHE_CAPACITY CUBLAS_LOG* CUBLASLT_LOG* "
     "CUBLASLT_HEURISTICS_CACHE_CAPACITY CUDNN_LOG* CUDNN_FRONTEND_LOG_*")),
    ("numerics", "the all-reduce sums in another order",
     ("NCCL_ALGO NCCL_PROTO NCCL_MIN_NCHANNELS NCCL_MAX_NCHANNELS NCCL_MIN_CTAS NCCL_MAX_CTAS NCCL_NTHREADS NCCL_CTA_POLICY "
     "NCCL_THREAD_THRESHOLDS NCCL_BUFFSIZE NCCL_LL_BUFFSIZE NCCL_LL128_*")),
    ("numerics", "sums are formed in the switch or by other kernels",
     ("NCCL_NVLS_ENABLE NCCL_NVLS_NCHANNELS NCCL_COLLNET_ENABLE NCCL_PAT_ENABLE NCCL_SYM_KERNEL NCCL_WIN_ENABLE "
     "NCCL_CUMEM_ENABLE NCCL_MNNVL_ENABLE")),
    ("numerics", "GPUs are joined by other links, so another algorithm is chosen",
     ("NCCL_P2P_DISABLE NCCL_P2P_LEVEL NCCL_SHM_DISABLE NCCL_NET NCCL_NET_DISABLE_INTRA NCCL_IB_DISABLE NCCL_CROSS_NIC "
     "@NCCL_TOPO_FILE @NCCL_GRAPH_FILE @NCCL_CONF_FILE ~NCCL_TUNER_PLUGIN ~NCCL_NET_PLUGIN ~NCCL_ENV_PLUGIN")),
    ("scheduling", "collective kernels are launched otherwise",
     "NCCL_LAUNCH_MODE NCCL_GRAPH_MIXING_SUPPORT NCCL_GRAPH_REGISTER"),
    ("noise", "", "NCCL_DEBUG* NCCL_SOCKET_IFNAME NCCL_IB_* NCCL_COMM_ID NCCL_HOSTID NCCL_RAS_* NCCL_SOCKET_*"),
    ("numerics", "float32 products run in TF32", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"),
    ("numerics", "other libraries and kernels of PyTorch compute",
     ("TORCH_BLAS_PREFER_CUBLASLT TORCH_BLAS_PREFER_HIPBLASLT TORCH_CUDNN_V8_API_DISABLED TORCH_CUDNN_USE_HEURISTIC_MODE_B "
     "TORCH_CUDNN_SDPA_DEPRIORITIZED TORCH_CUDNN_SDPA_NESTED_TENSOR_ENABLED TORCH_LINALG_PREFER_CUSOLVER "
     "TORCH_LINALG_PREFER_HIPSOLVER TORCH_ROCM_FA_PREFER_CK TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL "
     "TORCH_SYMM_MEM_DISABLE_MULTICAST TORCH_SYMMMEM ENABLE_PERSISTENT_TMA_MATMUL ATEN_CPU_CAPABILITY")),
    ("numerics", "matrix products are chosen by timing on this host", "@PYTORCH_TUNABLEOP_FILENAME PYTORCH_TUNABLEOP_*"),
    ("noise", "", "TORCHINDUCTOR_COMPILE_THREADS ~TORCHINDUCTOR_CACHE_DIR"),
    ("sampling", "tokens are drawn by another formula", "TORCHINDUCTOR_APPLY_GUMBEL_MAX_TRICK"),
    ("numerics", "compiled kernels are formed, fused or tuned otherwise", "TORCHINDUCTOR_*"),
    ("numerics", "code runs compiled or eager",
     "TORCH_COMPILE_DISABLE TORCHDYNAMO_DISABLE TORCHDYNAMO_SUPPRESS_ERRORS PYTORCH_JIT"),
    ("scheduling", "memory, so room for the KV cache",
     "PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING"),
    ("scheduling", "prefix-cache hashes differ between instances", "PYTHONHASHSEED"),
    ("noise", "", "PYTORCH_NVML_BASED_CUDA_CHECK TORCH_NCCL_* TORCH_LOGS TORCH_SHOW_*"),
    ("identity", "kernels are built for other GPUs", "TORCH_CUDA_ARCH_LIST FLASHINFER_CUDA_ARCH_LIST CUTE_DSL_ARCH"),
    ("numerics", "Triton multiplies float32 in another precision", "TRITON_F32_DEFAULT"),
    ("numerics", "Triton contracts or keeps single roundings", "TRITON_DEFAULT_FP_FUSION TRITON_FORCE_DISABLE_FP_FUSION"),
    ("numerics", "kernels run in Python", "TRITON_INTERPRET"),
    ("numerics", "tuning results are kept, so a warm cache chooses other kernels", "TRITON_CACHE_AUTOTUNING"),
    ("numerics", "Triton makes other machine code",
     ("TRITON_OVERRIDE_ARCH TRITON_KERNEL_OVERRIDE @TRITON_OVERRIDE_DIR @TRITON_PTXAS_PATH PTXAS_OPTIONS DISABLE_PTXAS_OPT "
     "@TRITON_LIBDEVICE_PATH TRITON_MOCK_PTX_VERSION TRITON_HIP_USE_* AMDGCN_USE_BUFFER_OPS AMDGCN_SCALARIZE_PACKED_FOPS")),
    ("noise", "", "TRITON_PRINT_AUTOTUNING TRITON_KERNEL_DUMP TRITON_DUMP_DIR"),
    ("numerics", "other kernels of FlashInfer compute",
     ("FLASHINFER_ATTENTION_BACKEND FLASHINFER_GEMM_BACKEND FLASHINFER_TOPK_ALGO FLASHINFER_USE_CUDA_NORM "
     "FLASHINFER_DISABLE_TINYGEMM2_SM100 TRTLLM_DG_ENABLED")),
    ("numerics", "FP4 is quantized by another rule",
     ("FLASHINFER_DISABLE_FP4_QUANT_FAST_MATH TRTLLM_DISABLE_FP4_QUANT_FAST_MATH FLASHINFER_NVFP4_4OVER6 "
     "FLASHINFER_NVFP4_4OVER6_E4M3_USE_256 FLASHINFER_NVFP4_4OVER6_ERR_MODE FLASHINFER_NVFP4_4OVER6_ERR_USE_FAST_MATH")),
    ("numerics", "FlashInfer picks tactics by timing or from a file",
     ("@FLASHINFER_AUTOTUNER_LOAD_FROM_FILE @FLASHINFER_AUTOTUNE_DIR @FLASHINFER_TACTICS_BLOCKLIST "
     "FLASHINFER_DIST_AWARE_AUTOTUNE FLASHINFER_CUTILE_AUTOTUNE_DISABLED")),
    ("numerics", "the paths of confidential computing are taken or not", "FLASHINFER_CONFIDENTIAL_COMPUTE"),
    ("identity", "other binaries run",
     ("FLASHINFER_DISABLE_JIT ~FLASHINFER_NVCC ~FLASHINFER_CUBIN_DIR FLASHINFER_DISABLE_VERSION_CHECK "
     "FLASHINFER_CUBIN_CHECKSUM_DISABLED DG_JIT_USE_NVRTC")),
    ("scheduling", "kernels overlap otherwise", "TRTLLM_ENABLE_PDL"),
    ("numerics", "other attention kernels compute", "FLASH_ATTENTION_*"),
    ("noise", "", "~DG_JIT_CACHE_DIR FLASHINFER_LOGGING_LEVEL FLASHINFER_WORKSPACE_BASE FLASHINFER_JIT_*"),
    ("identity", "ROCm treats the GPU as another model", "HSA_OVERRIDE_GFX_VERSION"),
    ("numerics", "other kernels of ROCm compute",
     ("MIOPEN_FIND_MODE MIOPEN_FIND_ENFORCE MIOPEN_DEBUG_CONV_* @HIPBLASLT_TUNING_FILE ROCBLAS_TENSILE_* "
     "ROCBLAS_DEFAULT_ATOMICS_MODE PYTORCH_MIOPEN_SUGGEST_NHWC HIP_FORCE_DEV_KERNARG AITER_* CK_MOE RCCL_* MSCCL_ENABLE")),
    ("numerics", "the all-reduce is quantized or cast",
     "ROCM_QUICK_REDUCE_QUANTIZATION ROCM_QUICK_REDUCE_CAST_BF16_TO_FP16"),
    ("numerics", "sums on the CPU are split over other threads",
     "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS MKL_DYNAMIC KMP_DETERMINISTIC_REDUCTION"),
    ("numerics", "other instructions of the CPU compute",
     "MKL_CBWR MKL_ENABLE_INSTRUCTIONS ONEDNN_MAX_CPU_ISA ONEDNN_DEFAULT_FPMATH_MODE DNNL_* OPENBLAS_CORETYPE"),
    ("numerics", "other kernels of llama.cpp compute", "GGML_CUDA_*"),
    ("identity", "which snapshot of the cache is read, resolved into the checkpoint",
     "~HF_HOME ~HF_HUB_CACHE ~HUGGINGFACE_HUB_CACHE ~TRANSFORMERS_CACHE ~XDG_CACHE_HOME ~HF_ENDPOINT"),
    ("identity", "a branch stays where the cache has it, or moves under a restart", "HF_HUB_OFFLINE TRANSFORMERS_OFFLINE"),
    ("noise", "", ("HF_HUB_DISABLE_* HF_HUB_ENABLE_HF_TRANSFER HF_XET_* TOKENIZERS_PARALLELISM HF_HUB_ETAG_TIMEOUT "
     "HF_HUB_DOWNLOAD_TIMEOUT")),
    ("numerics", "KV tensors of other machines arrive in another precision", "LMCACHE_REMOTE_SERDE LMCACHE_CHUNK_SIZE"),
    ("numerics", "stored KV tensors are blended, compressed or taken from elsewhere",
     ("LMCACHE_* @LMCACHE_CONFIG_FILE @MOONCAKE_CONFIG_PATH @FLEXKV_CONFIG_PATH @SGLANG_HICACHE_HF3FS_CONFIG_PATH "
     "@SGLANG_HICACHE_MOONCAKE_CONFIG_PATH")),
)  # fmt: skip
