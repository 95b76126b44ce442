"""The words that an option of SGLang takes, release by release, where argparse is given a list of them.

A line without indent names options that share a list; `NAME@FIRST-LAST` has it in those releases only, and is free in
others. A line below is `FIRST-LAST words`, LAST left out where the newest release still has them.
"""

from __future__ import annotations

ROWS = """
attention-backend
  0.3.4- flashinfer triton
  0.4.0- torch_native
  0.4.6- fa3 flashmla
  0.4.8-0.5.18 cutlass_mla
  0.4.8- aiter intel_amx
  0.4.9- ascend
  0.5.1-0.5.18 dual_chunk_flash_attn
  0.5.1- trtllm_mha trtllm_mla wave
  0.5.2-0.5.2 hybrid_linear_attn
  0.5.3- fa4 flex_attention nsa
  0.5.4- intel_xpu
  0.5.12- compressed dsv4 tokenspeed_mla
  0.5.14- cutedsl_mla dsa
  0.5.18- hpc_ops
  0.5.20- minicpm_flashattn minicpm_flashinfer qsa
  0.5.22- llada2_cfg_flashinfer
bf16-gemm-backend
  0.5.16- auto cutedsl
  0.5.18- torch
  0.5.20- gemv
boundary-reduction
  0.5.22- ar auto rs rs+rsv rsv
cp-strategy
  0.5.14- interleave zigzag
cuda-graph-backend-decode cuda-graph-backend-prefill
  0.5.14-0.5.20 tc_piecewise
  0.5.14- breakable disabled full
cuda-graph-tc-compiler
  0.5.14-0.5.20 eager inductor
dcp-comm-backend
  0.5.18- a2a ag_rs fi_a2a
decode-attention-backend prefill-attention-backend
  0.4.10-0.5.18 cutlass_mla
  0.4.10- fa3 flashinfer flashmla torch_native triton
  0.5.1-0.5.18 dual_chunk_flash_attn
  0.5.1- aiter ascend intel_amx trtllm_mha trtllm_mla wave
  0.5.2-0.5.2 hybrid_linear_attn
  0.5.3- fa4 flex_attention nsa
  0.5.4- intel_xpu
  0.5.12- compressed dsv4 tokenspeed_mla
  0.5.14- cutedsl_mla dsa
  0.5.18- hpc_ops
  0.5.20- minicpm_flashattn minicpm_flashinfer qsa
  0.5.22- llada2_cfg_flashinfer
decoupled-spec-role
  0.5.16- drafter null verifier
deepep-dispatcher-output-dtype
  0.5.14- auto bf16 fp8 int8 nvfp4
deepep-mode
  0.4.6- auto low_latency normal
deepep-v2-mode
  0.5.20- direct hybrid
device@0.3.4-0.4.4
  0.3.4-0.4.4 cuda xpu
  0.4.0-0.4.4 hpu
  0.4.2-0.4.4 cpu
disaggregation-decode-allocation-policy
  0.5.22- early prefill_complete
disaggregation-decode-retraction-backup
  0.5.18- cpu_tensor host_pool
  0.5.22- none
disaggregation-mode
  0.4.6- decode null prefill
disaggregation-transfer-backend
  0.4.6- mooncake nixl
  0.4.10- ascend
  0.5.2- fake
  0.5.9- mori
  0.5.14- mooncake_tcp
dsa-decode-backend
  0.5.14- aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm
  0.5.16- flashmla_sparse_q8
  0.5.18- flashinfer_sparse_mla
  0.5.20- triton
  0.5.22- intel_xpu
dsa-paged-mqa-logits-backend
  0.5.16- aiter auto cutedsl deepgemm
dsa-prefill-backend
  0.5.14- aiter fa3 flashmla_auto flashmla_kv flashmla_sparse tilelang trtllm
  0.5.16- flashmla_sparse_q8
  0.5.18- flashinfer_sparse_mla
  0.5.20- triton
  0.5.22- intel_xpu triton_sparse_mla
dsa-topk-backend speculative-dsa-topk-backend
  0.5.14- flashinfer sgl-kernel torch
dsa-triton-union
  0.5.22- 0 2 4
dsv4-attn-backend
  0.5.20- auto flashmla trtllm
  0.5.23- flashmla_mega
dsv4-prefill-backend
  0.5.20- auto flashmla_sparse flashmla_sparse_q8
dtype
  0.3.4- auto bfloat16 float float16 float32 half
elastic-ep-backend
  0.5.4- mooncake none
  0.5.10- nixl
elastic-ep-join-mode
  0.5.16- recover scale
encoder-transfer-backend
  0.5.7- mooncake zmq_to_scheduler zmq_to_tokenizer
  0.5.18- auto
ep-dispatch-algorithm@0.5.14-
  0.5.14- dynamic fake lp static
expert-balancedness-report-mode
  0.5.18- both off prometheus server_log
expert-distribution-recorder-mode@0.5.14-
  0.5.14- per_pass per_token stat stat_approx
flashinfer-a2a-dispatch-type
  0.5.20- auto bf16 mxfp8 nvfp4
flashinfer-allreduce-fusion-backend
  0.5.14- auto mnnvl trtllm
  0.5.22- cutedsl
flashinfer-mxfp4-moe-precision
  0.5.1-0.5.1 mxfp4
  0.5.1- bf16
  0.5.2- default
  0.5.20- fp8
fp4-gemm-backend
  0.5.8- auto flashinfer_cudnn flashinfer_cutlass flashinfer_trtllm
  0.5.10-0.5.14 cutlass
  0.5.12- flashinfer_cutedsl
  0.5.14- marlin
fp8-gemm-backend
  0.5.7- aiter auto cutlass deep_gemm flashinfer_trtllm triton
  0.5.9- flashinfer_deepgemm
  0.5.10- flashinfer_cutlass
  0.5.18- flashinfer_cutedsl
fuseep-mode
  0.5.16- 1 2
grammar-backend
  0.3.6- outlines xgrammar
  0.4.4- llguidance
  0.4.6- none
hicache-host-memory-mode
  0.5.20- buffer_only cache
hicache-io-backend
  0.4.10- direct kernel
  0.5.6- kernel_ascend
hicache-mem-layout
  0.5.1- layer_first page_first
  0.5.3- page_first_direct
  0.5.6- page_first_kv_split page_head
hicache-storage-backend
  0.4.10- file hf3fs mooncake
  0.5.1- nixl
  0.5.3- aibrix dynamic eic
  0.5.12- simm
  0.5.16- mori
  0.5.18- shm
  0.5.20- npu_memcache sim
  0.5.22- seaweedfs tensorcast
hicache-storage-prefetch-policy
  0.5.1- best_effort timeout wait_complete
hicache-write-policy
  0.4.6- write_back write_through write_through_selective
image-processor-backend
  0.5.18- auto pil torchvision
kv-cache-dtype
  0.3.4- auto fp8_e5m2
  0.4.2- fp8_e4m3
  0.5.4- bf16 bfloat16
  0.5.5-0.5.20 fp4_e2m1
  0.5.16- fp4_mx_block16 mxfp8 nvfp4
kv-canary
  0.5.14- log none raise
linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend
  0.5.10- cutedsl flashinfer triton
  0.5.16- flashkda
  0.5.18- helion nvidia_kda ptx_kda
  0.5.20- intel_xpu
linear-attn-verify-backend
  0.5.18- cutedsl flashinfer flashkda helion nv_cutedsl nvidia_kda ptx_kda triton
  0.5.20- intel_xpu
load-balance-method
  0.3.4-0.5.7 shortest_queue
  0.3.4- round_robin
  0.5.1-0.5.7 minimum_tokens
  0.5.7-0.5.7 decode_round_robin
  0.5.8- auto follow_bootstrap_room total_requests total_tokens
load-format speculative-draft-load-format
  0.3.4- auto dummy npcache pt safetensors
  0.4.0- gguf
  0.4.2- bitsandbytes layered
  0.4.6- remote sharded_state
  0.5.3- remote_instance
  0.5.7- fastsafetensors flash_rl private
  0.5.10- mistral runai_streamer
  0.5.18- presharded
  0.5.20- expert_pack
  0.5.22- instanttensor
log-requests-format
  0.5.7- json text
log-requests-level
  0.4.4- 0 1 2
  0.4.9- 3
lora-backend@0.5.3-
  0.5.3- csgmv triton
  0.5.6- ascend
  0.5.7- torch_native
  0.5.23- triton_v2
lora-eviction-policy
  0.5.4- fifo lru
lora-target-modules
  0.4.10- all down_proj gate_proj k_proj o_proj q_proj up_proj v_proj
  0.5.1- gate_up_proj qkv_proj
  0.5.7- embed_tokens lm_head
  0.5.12- kv_a_proj_with_mqa kv_b_proj q_a_proj q_b_proj
  0.5.14- weights_proj wk wq_b
  0.5.16- qkvr wo_ud
mamba-backend
  0.5.9- flashinfer triton
mamba-radix-cache-strategy
  0.5.14- auto extra_buffer extra_buffer_lazy no_buffer
mamba-scheduler-strategy@0.5.7-0.5.12
  0.5.7-0.5.12 auto extra_buffer no_buffer
mamba-ssm-dtype
  0.5.2- bfloat16 float32
  0.5.9- float16
max-lora-chunk-size
  0.5.3- 128 16 32 64
mm-attention-backend
  0.4.8- fa3 sdpa triton_attn
  0.5.3- ascend_attn
  0.5.5- aiter_attn
  0.5.9- fa4
  0.5.10- flashinfer_cudnn
  0.5.14- amx_attn xpu_attn
mm-feature-transport
  0.5.16- cpu cuda_ipc
  0.5.18- cuda_vmm
mm-global-cache-backend
  0.5.18- mooncake
moe-a2a-backend
  0.5.1- deepep none
  0.5.4- mooncake
  0.5.6- ascend_fuseep
  0.5.9- flashinfer mori
  0.5.10- nixl
  0.5.12- megamoe
  0.5.16- ascend_tp
  0.5.18- pplx
  0.5.20- deepep_v2 flashinfer_megamoe
moe-runner-backend speculative-moe-runner-backend
  0.5.1- auto flashinfer_cutlass flashinfer_mxfp4 flashinfer_trtllm triton triton_kernel
  0.5.3- flashinfer_cutedsl
  0.5.4- cutlass deep_gemm
  0.5.10- flashinfer_trtllm_routed
  0.5.12- aiter marlin
  0.5.14- experimental_sgl_trtllm
  0.5.16- experimental_sgl_marlin humming
  0.5.18- hpc_ops megamoe
  0.5.20- flashinfer_megamoe intel_xpu
  0.5.23- lora_cutedsl lora_marlin lora_triton
monokernel-backend
  0.5.23- amd
nsa-decode nsa-prefill
  0.5.3-0.5.3 aiter fa3 flashmla_decode flashmla_prefill tilelang
nsa-decode-backend nsa-prefill-backend
  0.5.4-0.5.18 aiter fa3 flashmla_kv flashmla_sparse tilelang
  0.5.5-0.5.18 flashmla_auto
  0.5.9-0.5.18 trtllm
  0.5.16-0.5.18 flashmla_sparse_q8
  0.5.18-0.5.18 flashinfer_sparse_mla
dsa-prefill-cp-mode nsa-prefill-cp-mode
  0.5.8-0.5.18 in-seq-split round-robin-split
piecewise-cuda-graph-compiler
  0.5.4-0.5.18 eager inductor
ple-offload-backend
  0.5.20- file pinned
prefill-cp-mode
  0.5.10-0.5.18 in-seq-split
prefill-kv-cache-dequant-dtype
  0.5.22- auto fp8_e4m3 nvfp4
qsa-indexer-dtype
  0.5.22- auto bfloat16 fp8_e4m3
quantization
  0.3.4-0.5.18 marlin
  0.3.4- awq awq_marlin bitsandbytes fp8 gptq gptq_marlin
  0.4.0- gguf
  0.4.2- modelopt w8a8_int8
  0.4.4- w8a8_fp8
  0.4.6- modelopt_fp4 moe_wna16
  0.4.8-0.5.14 qoq
  0.4.10- petit_nvfp4 w4afp8
  0.5.1- mxfp4
  0.5.4- compressed-tensors modelopt_fp8
  0.5.5- auto-round
  0.5.7- modelslim
  0.5.8- quark_int4fp8_moe
  0.5.9- mxfp8
  0.5.10- modelopt_mixed
  0.5.12- mlx_q4 mlx_q8 quark unquant
  0.5.14- nvfp4_online quark_mxfp4
  0.5.16- auto-round-int8 humming mxfp_w4a8
radix-eviction-policy
  0.5.3- lfu lru
  0.5.10- slru
  0.5.12- priority
  0.5.22- tlru
reasoning-parser
  0.4.4- deepseek-r1
  0.4.8- qwen3
  0.4.9- kimi
  0.4.10- glm45 qwen3-thinking step3
  0.5.1- deepseek-v3 gpt-oss
  0.5.5- kimi_k2 minimax minimax-append-think
  0.5.7-0.5.9 nano_v3
  0.5.7- interns1
  0.5.9- step3p5
  0.5.10- mimo mistral nemotron_3
  0.5.12- auto deepseek-v4 gemma4 hunyuan poolside_v1
  0.5.14- apertus2509 cohere_command4
  0.5.16- inkling minimax-m3
  0.5.18- kimi_k3 muse
  0.5.20- dots granite_thinking_parser k2_horizon ling3 nanbeige
  0.5.22- deepseek-v41 gigachat35 iquest_q1
  0.5.23- beam response_template
remote-instance-weight-loader-backend
  0.5.7- nccl transfer_engine
  0.5.10- modelexpress
retraction-policy
  0.5.16- length priority
return-hidden-states-mode
  0.5.18- full last
rl-on-policy-target
  0.5.5- fsdp
sampling-backend
  0.3.4- flashinfer pytorch
  0.5.6- ascend
  0.5.22- intel_xpu
sampling-defaults
  0.5.4- model openai
schedule-policy
  0.3.4- dfs-weight fcfs lpm random
  0.5.1- lof
  0.5.3- priority
  0.5.8- routing-key
  0.5.20- hrrn
  0.5.22- shortest-prefill-first
speculative-algorithm@0.4.2-0.5.10
  0.4.2-0.5.10 EAGLE
  0.4.4-0.5.10 NEXTN
  0.4.6-0.5.10 EAGLE3
  0.5.2-0.5.10 STANDALONE
  0.5.3-0.5.10 NGRAM
speculative-attention-mode
  0.5.2- decode prefill
speculative-draft-kv-cache-dtype
  0.5.18- auto bf16 bfloat16 fp8_e4m3 fp8_e5m2
speculative-draft-model-quantization
  0.5.7-0.5.14 qoq
  0.5.7-0.5.18 marlin
  0.5.7- auto-round awq awq_marlin bitsandbytes compressed-tensors fp8 gguf gptq gptq_marlin modelopt modelopt_fp4
    modelopt_fp8 modelslim moe_wna16 mxfp4 petit_nvfp4 unquant w4afp8 w8a8_fp8 w8a8_int8
  0.5.8- quark_int4fp8_moe
  0.5.9- mxfp8
  0.5.10- modelopt_mixed
  0.5.12- mlx_q4 mlx_q8 quark
  0.5.14- nvfp4_online quark_mxfp4
  0.5.16- auto-round-int8 humming mxfp_w4a8
speculative-moe-a2a-backend
  0.5.7- ascend_fuseep deepep mooncake none
  0.5.9- flashinfer mori
  0.5.10- nixl
  0.5.12- megamoe
  0.5.16- ascend_tp
  0.5.18- pplx
  0.5.20- deepep_v2
speculative-ngram-match-type
  0.5.3- BFS PROB
startup-weight-load-mode
  0.5.18- overlap serial
tokenizer-backend
  0.5.12- fastokens huggingface
tokenizer-mode
  0.3.4- auto slow
tool-call-parser
  0.4.2- llama3 mistral qwen25
  0.4.6- deepseekv3
  0.4.8- pythonic
  0.4.10- glm45 kimi_k2 qwen3_coder step3
  0.5.1- gpt-oss
  0.5.2- deepseekv31
  0.5.4- glm qwen
  0.5.5- minimax-m2
  0.5.6- deepseekv32
  0.5.7- glm47 interns1 mimo
  0.5.8- trinity
  0.5.9- gigachat3 hermes lfm2 step3p5
  0.5.12- auto deepseekv4 gemma4 hunyuan poolside_v1
  0.5.14- apertus2509 cohere_command4 minicpm5
  0.5.16- inkling minimax-m3
  0.5.18- kimi_k3 muse
  0.5.20- dots k2_horizon ling3 nanbeige spark25
  0.5.22- deepseekv41 gigachat35 iquest_q1
  0.5.23- beam response_template
unified-cache-external-linker-backend
  0.5.20- mooncake mori
  0.5.23- dynamic
weight-cache-mode
  0.5.18- client daemon off
"""
