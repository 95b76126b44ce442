"""Every option of SGLang by what it takes and the releases that have it (27 releases read, 0.3.4 to 0.5.23).

A line is `FIRST-LAST names`, LAST left out where the newest release still has it; it goes on over deeper lines.
"""

from __future__ import annotations

READ = (
    "0.3.4 0.3.6 0.4.0 0.4.2 0.4.3 0.4.4 0.4.6 0.4.8 0.4.9 0.4.10 0.5.1 0.5.2 0.5.3 0.5.4 0.5.5 0.5.6 0.5.7 0.5.8 "
    "0.5.9 0.5.10 0.5.12 0.5.14 0.5.16 0.5.18 0.5.20 0.5.22 0.5.23"
)
"""The releases whose sources were read, oldest first."""

ROWS = """
switch
  0.3.4-0.3.4 disable-flashinfer disable-flashinfer-sampling disable-penalizer disable-regex-jump-forward
    enable-overlap-schedule
  0.3.4-0.3.6 disable-disk-cache
  0.3.4-0.4.0 disable-nan-detection
  0.3.4-0.4.4 disable-mla
  0.3.4-0.5.10 enable-double-sparsity
  0.3.4-0.5.12 disable-cuda-graph
  0.3.4- disable-cuda-graph-padding disable-custom-all-reduce disable-radix-cache enable-cache-report
    enable-mixed-chunk enable-p2p-check enable-torch-compile is-embedding log-requests show-time-cost
    skip-tokenizer-init triton-attention-reduce-in-fp32 trust-remote-code
  0.3.6-0.4.3 disable-jump-forward
  0.3.6-0.5.12 enable-nan-detection
  0.3.6-0.5.20 enable-dp-attention
  0.3.6- delete-ckpt-after-loading disable-overlap-schedule enable-metrics
  0.4.0- disable-outlines-disk-cache
  0.4.2-0.5.2 enable-ep-moe
  0.4.2-0.5.9 stream-output
  0.4.2- allow-auto-truncate enable-custom-logit-processor enable-memory-saver
  0.4.3-0.4.3 return-hidden-states
  0.4.3-0.4.4 enable-flashinfer-mla
  0.4.3- enable-hierarchical-cache enable-nccl-nvls
  0.4.4- flashinfer-mla-disable-ragged
  0.4.6-0.5.2 enable-deepep-moe
  0.4.6- disable-chunked-prefix-cache disable-fast-image-processor enable-multimodal enable-tokenizer-batch-encode
  0.4.8-0.4.9 disable-overlap-cg-plan enable-flashinfer-moe
  0.4.8-0.5.3 debug-tensor-dump-prefill-only
  0.4.8-0.5.10 collect-tokens-histogram
  0.4.8-0.5.16 enable-expert-distribution-metrics
  0.4.8- disable-shared-experts-fusion enable-dp-lm-head enable-eplb enable-mscclpp enable-profile-cuda-graph
    enable-request-time-stats-logging enable-return-hidden-states enable-two-batch-overlap sleep-on-idle
    weight-loader-disable-mmap
  0.4.9- enable-flashinfer-allreduce-fusion skip-server-warmup
  0.4.10-0.5.2 enable-flashinfer-cutlass-moe enable-flashinfer-trtllm-moe enable-triton-kernel-moe
  0.4.10- disable-hybrid-swa-memory enable-lora enable-metrics-for-all-schedulers enable-pdmux
  0.5.1-0.5.2 enable-flashinfer-mxfp4-moe
  0.5.1- disable-flashinfer-cutlass-moe-fp4-allgather enable-cudagraph-gc enable-symm-mem
  0.5.2-0.5.7 prefill-round-robin-balance
  0.5.2- enable-lmcache
  0.5.3-0.5.20 keep-mm-feature-on-device
  0.5.3- disaggregation-decode-enable-offload-kvcache enable-deterministic-inference enable-dynamic-batch-tokenizer
    enable-fp32-lm-head enable-priority-scheduling enable-single-batch-overlap enable-torch-symm-mem enable-trace
    enable-weights-cpu-backup schedule-low-priority-values-first
  0.5.4-0.5.4 enable-beta-spec
  0.5.4-0.5.9 enable-piecewise-cuda-graph
  0.5.4- abort-on-priority-when-disabled checkpoint-engine-wait-weights-before-ready
    constrained-json-disable-any-whitespace disable-tokenizer-batch-decode grpc-mode quantize-and-serve
  0.5.6-0.5.6 enable-flashinfer-autotune
  0.5.6-0.5.12 enable-nsa-prefill-context-parallel
  0.5.6-0.5.22 mm-enable-dp-encoder
  0.5.6- enable-attn-tp-input-scattered enable-broadcast-mm-inputs-process enable-draft-weights-cpu-backup
    enable-layerwise-nvtx-marker enable-torch-compile-debug-mode export-metrics-to-file
  0.5.7-0.5.8 disaggregation-decode-enable-fake-auto
  0.5.7-0.5.22 enable-fused-qk-norm-rope
  0.5.7- disable-flashinfer-autotune enable-dynamic-chunking enable-multi-layer-eagle
    enable-precise-embedding-interpolation enable-prefix-mm-cache enable-return-routed-experts encoder-only
    language-only remote-instance-weight-loader-start-seed-via-transfer-engine
  0.5.8-0.5.9 disable-hicache-numa-detect
  0.5.8- enable-lora-overlap-loading enable-prefill-delayer
  0.5.10-0.5.12 disable-piecewise-cuda-graph enable-prefill-context-parallel enforce-piecewise-cuda-graph
  0.5.10- disable-priority-preemption enable-adaptive-dispatch-to-encoder enable-aiter-allreduce-fusion
    enable-elastic-expert-backup enable-fused-moe-sum-all-reduce enable-hisparse enable-mfu-metrics
    enable-mm-global-cache enable-ssl-refresh enable-streaming-session enforce-disable-flashinfer-allreduce-fusion
    incremental-streaming-output pre-warm-nccl stream-response-default-include-usage use-ray
  0.5.12-0.5.12 enable-breakable-cuda-graph
  0.5.12-0.5.14 enable-deepep-waterfill
  0.5.12-0.5.20 elastic-ep-rejoin
  0.5.12-0.5.22 speculative-skip-dp-mlp-sync
  0.5.12- debug-cuda-graph disaggregation-decode-enable-radix-cache enable-dp-attention-local-control-broadcast
    enable-forward-pass-metrics enable-http2 enable-mis enable-quant-communications enable-return-indexer-topk
    enable-strict-thinking enforce-shared-experts-fusion lora-use-virtual-experts prefill-only-disable-kv-cache
    speculative-adaptive strip-thinking-cache weight-loader-drop-cache-after-load weight-loader-prefetch-checkpoints
  0.5.14- disable-attn-tp-gather disable-decode-cuda-graph disable-prefill-cuda-graph enable-deepseek-v4-fp4-indexer
    enable-int8-mamba-checkpoint enable-prefill-cp speculative-use-rejection-sampling
  0.5.16-0.5.16 enable-gdn-replayssm-spec
  0.5.16-0.5.22 enable-tf32-matmul
  0.5.16- enable-dsa-cache-layer-split enable-flexkv enable-linear-replayssm enable-mamba-cache-stochastic-rounding
    enable-page-major-kv-layout enable-scattered-sconv enable-session-radix-cache enable-unified-memory
    enable-waterfill smg-grpc-mode speculative-dspark-align-verify-tokens-to-graph-tier
  0.5.18- enable-cp-decode-attn-tp enable-linear-replayssm-spec language-model-only mlx-enable-sampling
    trust-mm-content-hashes
  0.5.20- enable-dense-mlp-attn-tp enable-layernorm-sp enable-lean-attention enable-response-store
    enable-shared-experts-attn-tp enable-unified-cache-external-linker enable-w4a4-mxfp4-megamoe return-input-ids
    return-output-ids
  0.5.22-0.5.22 enable-decoder-swa-bounded-replay
  0.5.22- disable-aiter-allreduce-fusion-in-decode disable-aiter-allreduce-fusion-in-prefill
    disaggregation-enable-kv-checksum enable-encoder-swa-bounded-replay enable-kv-cache-sharding
    enable-linker-mla-dedup enable-pd-role-switch enable-watermark speculative-use-block-verification
    trust-request-chat-template
  0.5.23- enable-amd-monokernel enable-hicache enable-http-worker-reuseport enable-megamoe-for-layernorm-sp
    enable-nvidia-megakernel enable-paged-experts enable-return-aux-hidden-states
retired
  0.5.10-0.5.18 stream-output
  0.5.14-0.5.18 disable-piecewise-cuda-graph enable-breakable-cuda-graph enable-dsa-prefill-context-parallel
    enable-nsa-prefill-context-parallel enable-prefill-context-parallel enforce-piecewise-cuda-graph
  0.5.14- disable-cuda-graph
  0.5.18-0.5.18 enable-gdn-replayssm-spec
  0.5.22- enable-dp-attention
idle
  0.5.8-0.5.12 hybrid-kvcache-ratio
  0.5.8-0.5.18 prefill-round-robin-balance
  0.5.10-0.5.12 enable-piecewise-cuda-graph
  0.5.12-0.5.18 collect-tokens-histogram
gone
  0.3.6-0.4.0 disable-flashinfer disable-flashinfer-sampling enable-overlap-schedule
  0.4.0-0.4.0 disable-disk-cache
  0.4.6-0.4.6 enable-flashinfer-mla enable-flashmla
  0.5.3-0.5.4 enable-deepep-moe enable-ep-moe enable-flashinfer-cutedsl-moe enable-flashinfer-cutlass-moe
    enable-flashinfer-mxfp4-moe enable-flashinfer-trtllm-moe enable-triton-kernel-moe
  0.5.18-0.5.18 enable-expert-distribution-metrics
either
  0.5.10- experts-shared-outer-loras
  0.5.12-0.5.12 record-nolora-graph
  0.5.12- lora-strict-loading
  0.5.16- dllm-fdfo
  0.5.18- dcp-replicate-q-proj enable-tp-lm-head-all-to-all
  0.5.20- ple-offload-embedding
  0.5.22- enable-dsa-fused-indexer speculative-enable-w4a4-mxfp4-megamoe
  0.5.23- enable-decoder-swa-bounded-replay enable-fused-qk-norm-rope enable-tf32-matmul mm-enable-dp-encoder
text
  0.3.4-0.4.3 file-storage-pth
  0.3.4-0.5.10 ds-channel-config-path ds-heavy-channel-type
  0.3.4-0.5.16 torchao-config
  0.3.4- api-key attention-backend chat-template constrained-json-whitespace-pattern device dist-init-addr dtype
    host json-model-override-args kv-cache-dtype load-balance-method load-format log-level log-level-http model-path
    nccl-init-addr quantization sampling-backend schedule-policy served-model-name tokenizer-mode tokenizer-path
  0.3.6- download-dir grammar-backend
  0.4.0- revision
  0.4.2- quantization-param-path speculative-algorithm speculative-draft-model-path tool-call-parser
  0.4.3- lora-backend
  0.4.4-0.5.12 debug-tensor-dump-inject
  0.4.4- debug-tensor-dump-input-file debug-tensor-dump-output-folder file-storage-path reasoning-parser
    speculative-token-map warmups
  0.4.6- completion-template deepep-mode disaggregation-ib-device disaggregation-mode
    disaggregation-transfer-backend hicache-write-policy
  0.4.8-0.4.9 impl
  0.4.8-0.5.1 pdlb-url
  0.4.8-0.5.6 preferred-sampling-params
  0.4.8- deepep-config ep-dispatch-algorithm eplb-algorithm expert-distribution-recorder-mode init-expert-location
    kv-events-config mm-attention-backend
  0.4.9- crash-dump-folder model model-loader-extra-config
  0.4.10- decode-attention-backend hicache-io-backend hicache-storage-backend model-impl prefill-attention-backend
  0.5.1- flashinfer-mxfp4-moe-precision hicache-mem-layout hicache-storage-prefetch-policy moe-a2a-backend
    moe-runner-backend offload-mode tool-server weight-version
  0.5.2- hicache-storage-backend-extra-config mamba-ssm-dtype speculative-attention-mode speculative-draft-model
    speculative-draft-model-revision
  0.5.3-0.5.3 nsa-decode nsa-prefill
  0.5.3-0.5.4 oltp-traces-endpoint
  0.5.3- config radix-eviction-policy remote-instance-weight-loader-seed-instance-ip speculative-ngram-match-type
    tokenizer-metrics-custom-labels-header
  0.5.4-0.5.5 kt-amx-method kt-amx-weight-path
  0.5.4-0.5.18 nsa-decode-backend nsa-prefill-backend piecewise-cuda-graph-compiler
  0.5.4- elastic-ep-backend lora-eviction-policy modelopt-checkpoint-restore-path modelopt-checkpoint-save-path
    modelopt-export-path modelopt-quant mooncake-ib-device pdmux-config-path sampling-defaults
    speculative-draft-load-format
  0.5.5- decrypted-config-file decrypted-draft-config-file otlp-traces-endpoint rl-on-policy-target
    speculative-moe-runner-backend
  0.5.6- dllm-algorithm export-metrics-to-file-dir fastapi-root-path kt-method kt-weight-path
  0.5.7-0.5.12 custom-sigquit-handler
  0.5.7-0.5.18 mamba-scheduler-strategy
  0.5.7- dllm-algorithm-config encoder-transfer-backend fp8-gemm-backend log-requests-format
    remote-instance-weight-loader-backend rl-quant-profile speculative-draft-attention-backend
    speculative-draft-model-quantization speculative-moe-a2a-backend
  0.5.8-0.5.9 hierarchical-sparse-attention-extra-config
  0.5.8-0.5.18 nsa-prefill-cp-mode
  0.5.8- admin-api-key fp4-gemm-backend hf-chat-template-name
  0.5.9- mamba-backend
  0.5.10-0.5.18 prefill-cp-mode
  0.5.10- hisparse-config linear-attn-backend linear-attn-decode-backend linear-attn-prefill-backend
    modelexpress-config ssl-ca-certs ssl-certfile ssl-keyfile ssl-keyfile-password
  0.5.12- forward-pass-metrics-ipc-name forward-pass-metrics-worker-id hierarchical-sparse-attention-extra-config
    model-config-parser msprobe-dump-config speculative-adaptive-config speculative-ngram-external-corpus-path
    tokenizer-backend
  0.5.14-0.5.18 dsa-prefill-cp-mode
  0.5.14-0.5.20 cuda-graph-tc-compiler
  0.5.14- cp-strategy cuda-graph-backend-decode cuda-graph-backend-prefill cuda-graph-config
    deepep-dispatcher-output-dtype dsa-decode-backend dsa-prefill-backend dsa-topk-backend
    flashinfer-allreduce-fusion-backend kv-canary kv-canary-real-data lmcache-config-file mamba-radix-cache-strategy
    radix-cache-backend trace-modules
  0.5.16- bf16-gemm-backend decoupled-spec-bind-endpoint decoupled-spec-role dsa-paged-mqa-logits-backend
    elastic-ep-join-mode flexkv-config-file mm-feature-transport retraction-policy sidecar spec-trace-dir
    speculative-dspark-confidence-sts-path speculative-dspark-sps-table-path
  0.5.18- dcp-comm-backend disaggregation-decode-retraction-backup expert-balancedness-report-mode
    image-processor-backend linear-attn-verify-backend mm-global-cache-backend return-hidden-states-mode
    speculative-draft-kv-cache-dtype startup-weight-load-mode weight-cache-mode weight-cache-socket
  0.5.20- deepep-v2-mode dsv4-attn-backend dsv4-prefill-backend flashinfer-a2a-dispatch-type
    hicache-host-memory-mode load-publish-endpoint ple-offload-backend ple-offload-dir speculative-dsa-topk-backend
    unified-cache-external-linker-backend uno-lora-path
  0.5.22- boundary-reduction disaggregation-decode-allocation-policy otlp-service-name
    prefill-kv-cache-dequant-dtype qsa-indexer-dtype watermark-config
  0.5.23- monokernel-backend
texts
  0.5.2- generation-tokens-buckets prompt-tokens-buckets
  0.5.3- tokenizer-metrics-allowed-custom-labels
  0.5.7- encoder-urls
  0.5.8- log-requests-target
  0.5.14- encoder-register-urls
  0.5.18- allowed-media-domains flashinfer-autotune-skip-ops
texts*
  0.3.4- lora-paths
  0.4.8- custom-weight-loader
  0.4.10- lora-target-modules
  0.5.8- uvicorn-access-log-exclude-prefixes
text?
  0.5.8- model-checksum
int
  0.3.4-0.3.4 max-torch-compile-bs
  0.3.4-0.5.9 context-length max-prefill-tokens max-total-tokens
  0.3.4-0.5.10 ds-heavy-channel-num ds-heavy-token-num ds-sparse-decode-threshold
  0.3.4- chunked-prefill-size data-parallel-size dp-size max-loras-per-batch max-running-requests nnodes node-rank
    num-continuous-decode-steps port random-seed stream-interval tensor-parallel-size tp-size
  0.3.6-0.5.18 cuda-graph-max-bs
  0.3.6- base-gpu-id decode-log-interval torch-compile-max-bs
  0.4.0- cpu-offload-gb
  0.4.2- ep-size expert-parallel-size speculative-eagle-topk speculative-num-draft-tokens speculative-num-steps
    triton-attention-num-kv-splits
  0.4.4- dist-timeout gpu-id-step log-requests-level page-size
  0.4.6-0.4.6 n-share-experts-fusion
  0.4.6- disaggregation-bootstrap-port hicache-size moe-dense-tp-size
  0.4.8-0.5.3 max-micro-batch-size
  0.4.8-0.5.9 disaggregation-decode-dp disaggregation-decode-tp disaggregation-prefill-pp
  0.4.8- ep-num-redundant-experts eplb-rebalance-layers-per-chunk eplb-rebalance-num-iterations
    expert-distribution-recorder-buffer-size num-reserved-decode-tokens pipeline-parallel-size pp-size
  0.4.9- nccl-port
  0.4.10- ep max-lora-rank max-queued-requests sm-group-num
  0.5.1- max-loaded-loras offload-group-size offload-num-in-group offload-prefetch-step scheduler-recv-interval
  0.5.2- max-mamba-cache-size tokenizer-worker-num
  0.5.3-0.5.9 speculative-ngram-branch-length speculative-ngram-max-match-window-size
    speculative-ngram-min-match-window-size
  0.5.3- disaggregation-decode-polling-interval dynamic-batch-tokenizer-batch-size max-lora-chunk-size
    priority-scheduling-preemption-threshold remote-instance-weight-loader-seed-instance-service-port
    speculative-ngram-capacity speculative-ngram-max-bfs-breadth speculative-ngram-min-bfs-breadth
    triton-attention-split-tile-size
  0.5.4-0.5.10 multi-item-scoring-delimiter
  0.5.4-0.5.18 piecewise-cuda-graph-max-tokens
  0.5.4- kt-cpuinfer kt-num-gpu-experts kt-threadpool-count pp-max-micro-batch-size
  0.5.5-0.5.9 mm-max-concurrent-calls mm-per-request-timeout
  0.5.5- kt-max-deferred-experts-per-token
  0.5.6-0.5.6 dllm-block-size
  0.5.7- mamba-track-interval pp-async-batch-depth prefill-max-requests
  0.5.8- prefill-delayer-max-delay-passes
  0.5.9- attention-context-parallel-size attn-cp-size moe-data-parallel-size moe-dp-size
  0.5.10- default-priority-value engine-info-bootstrap-port speculative-ngram-max-trie-depth
  0.5.12-0.5.18 speculative-dflash-draft-window-size
  0.5.12- batch-notify-size detokenizer-worker-num grpc-http-sidecar-port speculative-dflash-block-size
    speculative-draft-window-size speculative-ngram-external-corpus-max-tokens speculative-ngram-external-sam-budget
    weight-loader-prefetch-num-threads
  0.5.14-0.5.14 optimistic-prefill-retries
  0.5.14- asr-max-buffer-seconds asr-max-concurrent-sessions cuda-graph-max-bs-decode cuda-graph-max-bs-prefill
    disaggregation-decode-extra-slots encoder-bootstrap-port int8-mamba-ckpt-size kv-canary-sweep-interval
    load-snapshot-publish-interval
  0.5.16- dcp-size decode-context-parallel-size decoupled-spec-rank elastic-ep-initial-size
    elastic-ep-join-rank-offset fuseep-mode grpc-port linear-replayssm-cache-len mamba-cache-philox-rounds
    max-ep-size min-free-slots-delay optimistic-prefill-attempts smg-http-sidecar-port speculative-dspark-block-size
  0.5.18- c128-page-size dwdp-size http2-max-concurrent-streams mamba-max-states-per-path media-url-max-file-size-mb
    mm-io-worker-num mm-preprocess-cache-size-mb mm-processor-worker-num weight-cache-timeout
  0.5.20- gated-launch-port hicache-storage-prefetch-retry-max-attempts hicache-storage-prefetch-retry-poll-interval
    http2-initial-connection-window-size prefill-decode-interval sampling-mask-max-tokens
    speculative-domino-candidate-pool-size
  0.5.22- attention-data-parallel-size attn-dp-size constrained-json-max-whitespace-cnt
    cuda-graph-max-seq-len-prefill dsa-triton-union grpc-response-timeout-secs shared-experts-tp-size
    speculative-draft-sink-size swa-prefix-tails
  0.5.23- paged-experts-num-resident prefill-decode-interval-min-bs
ints
  0.4.2-0.5.18 cuda-graph-bs
  0.5.2- numa-node
  0.5.5- debug-tensor-dump-layers
  0.5.8-0.5.18 piecewise-cuda-graph-tokens
  0.5.10- gc-threshold
  0.5.14- cuda-graph-bs-decode cuda-graph-bs-prefill
  0.5.23- return-aux-hidden-state-layer-ids
amount
  0.5.10- context-length max-prefill-tokens max-total-tokens
  0.5.22- context-bucket cuda-graph-prefill-max-context
float
  0.3.4- mem-fraction-static schedule-conservativeness
  0.3.6- watchdog-timeout
  0.4.4- speculative-accept-threshold-acc speculative-accept-threshold-single
  0.4.6- hicache-ratio
  0.4.10- swa-full-tokens-ratio
  0.5.1- gc-warning-threshold-secs tbo-token-distribution-threshold
  0.5.2- eplb-min-rebalancing-utilization-threshold
  0.5.3-0.5.6 load-watch-interval
  0.5.3- dynamic-batch-tokenizer-batch-timeout
  0.5.4- mamba-full-memory-ratio
  0.5.7- soft-watchdog-timeout
  0.5.8- prefill-delayer-token-usage-low-watermark
  0.5.12- lora-drain-wait-threshold prefill-delayer-max-delay-ms prefill-delayer-queue-min-ratio
  0.5.16- elastic-ep-scale-timeout
  0.5.22- disaggregation-decode-host-receive-threshold hicache-host-memory-fraction
floats
  0.4.8- bucket-e2e-request-latency bucket-inter-token-latency bucket-time-to-first-token
  0.5.8- prefill-delayer-forward-passes-buckets prefill-delayer-wait-seconds-buckets
float?
  0.4.9-0.5.7 hybrid-kvcache-ratio
json
  0.5.6- mm-process-config
  0.5.7- limit-mm-data-per-request preferred-sampling-params
  0.5.9- extra-metric-labels
  0.5.16- default-chat-template-kwargs
  0.5.20- radix-eviction-policy-config
  0.5.23- unified-cache-external-linker-config
jsonlist
  0.5.3- remote-instance-weight-loader-send-weights-group-ports
  0.5.4-0.5.7 piecewise-cuda-graph-tokens
  0.5.6- forward-hooks
  0.5.16- decoupled-spec-connect-endpoints sidecar-args
bool1
  0.4.2-0.4.3 prefill-only-one-req
"""
