"""Keys of the JSON of vLLM's options, where the release refuses all others: 0.8.2 to 0.33.0.

Told by the configuration classes of those releases: 0.16.0 and later (`--compilation-config` 0.13.0, and 0.9.0) take no
key that they do not know, older ones ignore it; `--speculative-config` never took one. Steps as in `value_rows`.
"""

from __future__ import annotations

KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "attention_config": (
        ("0.16.0",
         "backend disable_flashinfer_prefill disable_flashinfer_q_quantization "
         "flash_attn_max_num_splits_for_cuda_graph flash_attn_version use_cudnn_prefill "
         "use_prefill_decode_attention use_trtllm_attention use_trtllm_ragged_deepseek_prefill"),
        ("0.17.0", "+use_prefill_query_quantization"),
        ("0.20.0", "+tq_max_kv_splits_for_cuda_graph +use_fp4_indexer_cache"),
        ("0.21.0", "+mla_prefill_backend +use_non_causal"),
        ("0.22.1",
         "+flex_attn_block_m +flex_attn_block_n +flex_attn_kv_block_size +flex_attn_q_block_size "
         "-disable_flashinfer_prefill -use_cudnn_prefill -use_trtllm_ragged_deepseek_prefill"),
        ("0.24.0", "+indexer_kv_dtype"),
        ("0.26.0", "+backend_per_kind +sparse_mla_force_mqa"),
        ("0.27.0", "+minimax_m3_msa_decode_backend"),
        ("0.29.0", "-use_prefill_decode_attention"),
        ("0.30.0", "+hisparse_config -use_fp4_indexer_cache"),
        ("0.31.0", "+indexer_sparse_logits"),
        ("0.32.0", "+sparse_mla_prefill_workspace_factor +tokenspeed_mla_min_split_kv"),
        ("0.33.0", "+indexer_tp_shard_min_rows +minimax_m3_indexer_cp +trtllm_ragged_backend"),
    ),
    "attention_config.hisparse_config": (("0.30.0", "device_buffer_size eager_host_mirror"),),
    "aux_output_config": (("0.31.0", "enable_return_routed_experts max_bytes"),),
    "compilation_config": (
        ("0.9.0",
         "backend cache_dir compile_sizes cudagraph_capture_sizes cudagraph_copy_inputs cudagraph_num_of_warmups "
         "custom_ops debug_dump_path full_cuda_graph inductor_compile_config inductor_passes level pass_config "
         "splitting_ops use_cudagraph use_inductor"),
        ("0.9.1", "*"),
        ("0.13.0",
         "backend cache_dir compile_cache_save_format compile_mm_encoder compile_ranges_split_points compile_sizes "
         "cudagraph_capture_sizes cudagraph_copy_inputs cudagraph_mode cudagraph_num_of_warmups "
         "cudagraph_specialize_lora custom_ops debug_dump_path dynamic_shapes_config inductor_compile_config "
         "inductor_passes level max_cudagraph_capture_size mode pass_config splitting_ops "
         "use_inductor_graph_partition"),
        ("0.16.0", "+fast_moe_cold_start"),
        ("0.18.0", "+compile_ranges_endpoints -compile_ranges_split_points -level"),
        ("0.19.0", "+cudagraph_mm_encoder +encoder_cudagraph_max_images_per_batch +encoder_cudagraph_token_budgets"),
        ("0.20.0",
         "+encoder_cudagraph_max_frames_per_batch +encoder_cudagraph_max_vision_items_per_batch "
         "+ir_enable_torch_wrap -encoder_cudagraph_max_images_per_batch"),
        ("0.32.0", "+cudagraph_decoder_replay +decoder_replay_cudagraph_capture_sizes +decoder_replay_trim_threshold"),
    ),
    "compilation_config.dynamic_shapes_config": (
        ("0.13.0", "evaluate_guards type"),
        ("0.14.0", "+assume_32_bit_indexing"),
    ),
    "compilation_config.pass_config": (
        ("0.9.0",
         "dump_graph_dir dump_graph_stages enable_async_tp enable_fusion enable_noop enable_sequence_parallelism"),
        ("0.9.1", "*"),
        ("0.13.0",
         "eliminate_noops enable_qk_norm_rope_fusion enable_sp fi_allreduce_fusion_max_size_mb fuse_act_quant "
         "fuse_allreduce_rms fuse_attn_quant fuse_gemm_comms fuse_norm_quant"),
        ("0.16.0", "+fuse_act_padding"),
        ("0.17.0", "+fuse_rope_kvcache +rope_kvcache_fusion_max_token_num +sp_min_token_num"),
        ("0.19.1", "+fuse_minimax_qk_norm"),
        ("0.20.0", "+fuse_mla_dual_rms_norm"),
        ("0.22.1", "+fuse_rope_kvcache_cat_mla"),
        ("0.24.0", "-fuse_minimax_qk_norm"),
        ("0.26.0", "+fuse_qk_norm_rope_kvcache"),
        ("0.32.0", "-enable_sp -fuse_gemm_comms -sp_min_token_num"),
    ),
    "ec_manager_config": (("0.28.0", "encoder_cache_manager_cls manager_config"),),
    "ec_transfer_config": (
        ("0.16.0",
         "ec_buffer_device ec_buffer_size ec_connector ec_connector_extra_config ec_connector_module_path ec_ip "
         "ec_parallel_size ec_port ec_rank ec_role engine_id"),
        ("0.32.0", "-ec_parallel_size -ec_rank"),
    ),
    "engram_config": (
        ("0.30.0", "cpu_offload dp_shared_memory embedding_across_dp"),
        ("0.31.0", "+use_thp"),
    ),
    "eplb_config": (
        ("0.16.0",
         "log_balancedness log_balancedness_interval num_redundant_experts policy step_interval use_async "
         "window_size"),
        ("0.20.0", "+communicator"),
        ("0.32.0", "+enable_migration_batching"),
    ),
    "fault_tolerance_config": (("0.27.0", "engine_recovery_timeout_sec"),),
    "ir_op_priority": (
        ("0.20.0", "rms_norm"),
        ("0.21.0", "+fused_add_rms_norm"),
        ("0.30.0", "+gelu_and_mul_sparse"),
    ),
    "kernel_config": (
        ("0.16.0", "enable_flashinfer_autotune"),
        ("0.17.0", "+moe_backend"),
        ("0.20.0", "+ir_op_priority"),
        ("0.22.1", "+linear_backend"),
        ("0.25.0", "+enable_cutedsl_warmup"),
        ("0.26.0", "+enable_bf16x3_router_gemm"),
        ("0.27.0", "+enable_jit_warmup"),
        ("0.30.0", "+linear_backend_per_quant +sparse_indexer_topk_backend -enable_bf16x3_router_gemm"),
        ("0.32.0", "+enable_rocm_segmented_attn_autotune"),
        ("0.33.0", "+monokernel"),
    ),
    "kernel_config.ir_op_priority": (
        ("0.20.0", "rms_norm"),
        ("0.21.0", "+fused_add_rms_norm"),
        ("0.30.0", "+gelu_and_mul_sparse"),
    ),
    "kv_events_config": (
        ("0.9.0", "buffer_steps enable_kv_cache_events endpoint hwm max_queue_size publisher replay_endpoint topic"),
        ("0.9.1", "*"),
        ("0.16.0", "buffer_steps enable_kv_cache_events endpoint hwm max_queue_size publisher replay_endpoint topic"),
    ),
    "kv_transfer_config": (
        ("0.9.0",
         "engine_id kv_buffer_device kv_buffer_size kv_connector kv_connector_extra_config "
         "kv_connector_module_path kv_ip kv_parallel_size kv_port kv_rank kv_role"),
        ("0.9.1", "*"),
        ("0.16.0",
         "enable_permute_local_kv engine_id kv_buffer_device kv_buffer_size kv_connector kv_connector_extra_config "
         "kv_connector_module_path kv_ip kv_load_failure_policy kv_parallel_size kv_port kv_rank kv_role"),
        ("0.32.0", "-kv_buffer_size -kv_ip -kv_parallel_size -kv_rank"),
    ),
    "logging_config": (
        ("0.31.0", "configure_logging log_level pylogging_config_file"),
        ("0.32.0", "+formatter"),
    ),
    "pooler_config": (
        ("0.16.0",
         "dimensions enable_chunked_processing logit_bias max_embed_len pooling_type returned_token_ids "
         "seq_pooling_type step_tag_id tok_pooling_type use_activation"),
        ("0.19.0", "+task"),
        ("0.20.0", "+logit_mean +logit_scale +logit_sigma"),
        ("0.23.0", "-logit_bias -logit_scale"),
        ("0.32.0", "+enable_flash_late_interaction"),
    ),
    "profiler_config": (
        ("0.16.0",
         "delay_iterations ignore_frontend max_iterations profiler torch_profiler_dir "
         "torch_profiler_dump_cuda_time_total torch_profiler_record_shapes torch_profiler_use_gzip "
         "torch_profiler_with_flops torch_profiler_with_memory torch_profiler_with_stack"),
        ("0.18.0", "+active_iterations +wait_iterations +warmup_iterations"),
        ("0.26.0", "+capture_torch_profiler +detailed_trace_annotation"),
        ("0.28.0",
         "+proton_backend +proton_context +proton_data +proton_hook +proton_mode +proton_output_format "
         "+proton_profiler_dir"),
        ("0.30.0", "+proton_graph_attribution"),
        ("0.31.0", "+torch_profiler_activities"),
    ),
    "quantization_config": (
        ("0.22.1", "ignore linear moe"),
        ("0.30.0", "+targets"),
    ),
    "reasoning_config": (
        ("0.19.0", "reasoning_end_str reasoning_start_str"),
        ("0.20.0", "+reasoning_parser"),
    ),
    "speculative_config": (
        ("0.8.2",
         "acceptance_method code_revision disable_by_batch_size disable_log_stats disable_logprobs "
         "disable_mqa_scorer draft_model_config draft_parallel_config draft_tensor_parallel_size "
         "enable_chunked_prefill max_model_len method model num_speculative_tokens posterior_alpha "
         "posterior_threshold prompt_lookup_max prompt_lookup_min quantization revision target_model_config "
         "target_parallel_config"),
        ("0.9.0", "+speculative_token_tree"),
        ("0.9.1",
         "+disable_lookahead_block_hashes +disable_padded_drafter_batch +enable_adaptive_verification "
         "+index_share_for_mtp_iteration +num_speculative_tokens_per_batch_size "
         "+suffix_decoding_max_cached_requests +suffix_decoding_max_spec_factor +suffix_decoding_max_tree_depth "
         "+suffix_decoding_min_token_prob"),
        ("0.10.0", "-acceptance_method -disable_mqa_scorer -posterior_alpha -posterior_threshold"),
        ("0.11.0", "+enforce_eager"),
        ("0.11.1", "-disable_log_stats -disable_logprobs -enable_chunked_prefill"),
        ("0.16.0",
         "+parallel_drafting +tensor_parallel_size -disable_lookahead_block_hashes -enable_adaptive_verification "
         "-index_share_for_mtp_iteration -num_speculative_tokens_per_batch_size"),
        ("0.17.0", "+draft_load_config +use_local_argmax_reduction -disable_by_batch_size"),
        ("0.18.0", "+rejection_sample_method"),
        ("0.19.0", "+moe_backend +synthetic_acceptance_rate"),
        ("0.20.0", "+synthetic_acceptance_length +synthetic_acceptance_rates -synthetic_acceptance_rate"),
        ("0.21.0", "+attention_backend +draft_sample_method -speculative_token_tree"),
        ("0.24.0", "+num_speculative_tokens_per_batch_size"),
        ("0.25.0", "+use_heterogeneous_vocab"),
        ("0.26.0", "+kv_cache_dtype"),
        ("0.28.0", "+dspark_draft_topk +enable_adaptive_verification"),
        ("0.29.0", "+index_share_for_mtp_iteration"),
        ("0.30.0", "+disable_eagle_block_drop"),
        ("0.33.0",
         "+disable_lookahead_block_hashes +draft_lm_head_quantization +fly_entropy_threshold +fly_entropy_top_k "
         "+fly_window_size +xpress_topc"),
    ),
    "structured_outputs_config": (
        ("0.16.0",
         "backend disable_additional_properties disable_any_whitespace disable_fallback enable_in_reasoning "
         "reasoning_parser reasoning_parser_plugin"),
        ("0.18.0", "-disable_fallback"),
    ),
    "watchdog_config": (("0.33.0", "check_interval dump_dir timeout"),),
    "weight_transfer_config": (("0.16.0", "backend"),),
}  # fmt: skip
"""Option, or path of an object inside its JSON -> the keys that it takes, by release."""
