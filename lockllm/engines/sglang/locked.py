"""Options of SGLang that are locked as they are given, each with what it may move: what no refresh writes.

Read in the help and the source of the releases. Where it was not sure that an option moves no output, it stands here.
"""

from __future__ import annotations

LOCKED_BECAUSE = {
    "other code runs in the server": (
        "custom_weight_loader enable_custom_logit_processor forward_hooks model_config_parser modelexpress_config "
        "rl_on_policy_target sidecar sidecar_args"
    ),
    "tokens are proposed ahead and accepted otherwise": (
        "decoupled_spec_bind_endpoint decoupled_spec_connect_endpoints decoupled_spec_rank decoupled_spec_role "
        "enable_beta_spec enable_gdn_replayssm_spec enable_linear_replayssm_spec enable_multi_layer_eagle "
        "speculative_adaptive speculative_adaptive_config speculative_attention_mode speculative_dflash_block_size "
        "speculative_domino_candidate_pool_size speculative_draft_attention_backend speculative_draft_kv_cache_dtype "
        "speculative_draft_load_format speculative_draft_model_path speculative_draft_model_quantization "
        "speculative_draft_model_revision speculative_draft_sink_size speculative_draft_window_size "
        "speculative_dsa_topk_backend speculative_dspark_align_verify_tokens_to_graph_tier "
        "speculative_dspark_block_size speculative_dspark_confidence_sts_path speculative_dspark_sps_table_path "
        "speculative_enable_w4a4_mxfp4_megamoe speculative_moe_a2a_backend speculative_moe_runner_backend "
        "speculative_ngram_branch_length speculative_ngram_capacity speculative_ngram_external_corpus_max_tokens "
        "speculative_ngram_external_corpus_path speculative_ngram_external_sam_budget speculative_ngram_match_type "
        "speculative_ngram_max_bfs_breadth speculative_ngram_max_match_window_size speculative_ngram_max_trie_depth "
        "speculative_ngram_min_bfs_breadth speculative_ngram_min_match_window_size speculative_skip_dp_mlp_sync "
        "speculative_token_map speculative_use_block_verification speculative_use_rejection_sampling"
    ),
    "adapters are loaded and applied otherwise": (
        "enable_lora enable_lora_overlap_loading experts_shared_outer_loras lora_backend lora_drain_wait_threshold "
        "lora_eviction_policy lora_paths lora_strict_loading lora_target_modules lora_use_virtual_experts "
        "max_loaded_loras max_lora_chunk_size max_lora_rank max_loras_per_batch record_nolora_graph uno_lora_path"
    ),
    "tools, reasoning and structured output change what is generated": (
        "constrained_json_disable_any_whitespace constrained_json_max_whitespace_cnt "
        "constrained_json_whitespace_pattern disable_disk_cache disable_jump_forward disable_outlines_disk_cache "
        "disable_regex_jump_forward enable_strict_thinking grammar_backend strip_thinking_cache tool_server"
    ),
    "images, sound and video become other input": (
        "asr_max_buffer_seconds asr_max_concurrent_sessions disable_fast_image_processor "
        "enable_adaptive_dispatch_to_encoder enable_broadcast_mm_inputs_process enable_mm_global_cache "
        "enable_multimodal enable_precise_embedding_interpolation enable_prefix_mm_cache encoder_only "
        "encoder_transfer_backend image_processor_backend keep_mm_feature_on_device language_model_only language_only "
        "limit_mm_data_per_request media_url_max_file_size_mb mm_attention_backend mm_enable_dp_encoder "
        "mm_feature_transport mm_global_cache_backend mm_io_worker_num mm_max_concurrent_calls "
        "mm_preprocess_cache_size_mb mm_process_config mm_processor_worker_num trust_mm_content_hashes"
    ),
    "other tokens go into the model": (
        "allow_auto_truncate chat_template completion_template default_chat_template_kwargs enable_mis "
        "enable_response_store enable_session_radix_cache enable_streaming_session hf_chat_template_name "
        "multi_item_scoring_delimiter skip_tokenizer_init tokenizer_backend tokenizer_path trust_request_chat_template"
    ),
    "tokens are drawn or reported otherwise": (
        "disable_penalizer disable_tokenizer_batch_decode dllm_algorithm dllm_algorithm_config dllm_block_size "
        "dllm_fdfo enable_return_aux_hidden_states enable_return_hidden_states enable_return_indexer_topk "
        "enable_return_routed_experts enable_watermark incremental_streaming_output mlx_enable_sampling "
        "preferred_sampling_params return_aux_hidden_state_layer_ids return_hidden_states return_hidden_states_mode "
        "return_input_ids return_output_ids sampling_backend sampling_defaults sampling_mask_max_tokens stream_output "
        "stream_response_default_include_usage watermark_config"
    ),
    "models that embed, classify or score answer otherwise": ("is_embedding"),
    "weights come from elsewhere, or are read otherwise": (
        "checkpoint_engine_wait_weights_before_ready decrypted_config_file decrypted_draft_config_file "
        "json_model_override_args model_checksum model_loader_extra_config model_path modelopt_checkpoint_restore_path "
        "modelopt_quant quantize_and_serve remote_instance_weight_loader_seed_instance_ip "
        "remote_instance_weight_loader_seed_instance_service_port revision startup_weight_load_mode weight_cache_mode "
        "weight_loader_disable_mmap weight_loader_drop_cache_after_load weight_loader_prefetch_checkpoints "
        "weight_loader_prefetch_num_threads"
    ),
    "values are kept or computed in another precision": (
        "deepep_dispatcher_output_dtype enable_deepseek_v4_fp4_indexer enable_fp32_lm_head enable_int8_mamba_checkpoint "
        "enable_mamba_cache_stochastic_rounding enable_quant_communications enable_tf32_matmul "
        "enable_w4a4_mxfp4_megamoe flashinfer_mxfp4_moe_precision int8_mamba_ckpt_size mamba_cache_philox_rounds "
        "mamba_ssm_dtype prefill_kv_cache_dequant_dtype qsa_indexer_dtype quantization_param_path rl_quant_profile "
        "torchao_config triton_attention_reduce_in_fp32"
    ),
    "KV cache and prefixes are kept, moved and reused otherwise": (
        "c128_page_size disable_chunked_prefix_cache disable_hicache_numa_detect disable_hybrid_swa_memory "
        "disable_radix_cache disaggregation_decode_allocation_policy disaggregation_decode_dp "
        "disaggregation_decode_enable_fake_auto disaggregation_decode_enable_offload_kvcache "
        "disaggregation_decode_enable_radix_cache disaggregation_decode_extra_slots "
        "disaggregation_decode_host_receive_threshold disaggregation_decode_polling_interval "
        "disaggregation_decode_retraction_backup disaggregation_decode_tp disaggregation_enable_kv_checksum "
        "disaggregation_mode disaggregation_prefill_pp disaggregation_transfer_backend "
        "enable_decoder_swa_bounded_replay enable_dsa_cache_layer_split enable_encoder_swa_bounded_replay enable_flexkv "
        "enable_hierarchical_cache enable_hisparse enable_kv_cache_sharding enable_linear_replayssm "
        "enable_linker_mla_dedup enable_lmcache enable_page_major_kv_layout enable_paged_experts enable_pd_role_switch "
        "enable_unified_cache_external_linker flexkv_config_file hicache_host_memory_fraction hicache_host_memory_mode "
        "hicache_io_backend hicache_mem_layout hicache_ratio hicache_size hicache_storage_backend "
        "hicache_storage_backend_extra_config hicache_storage_prefetch_policy "
        "hicache_storage_prefetch_retry_max_attempts hicache_storage_prefetch_retry_poll_interval hicache_write_policy "
        "hisparse_config hybrid_kvcache_ratio linear_replayssm_cache_len lmcache_config_file mamba_full_memory_ratio "
        "mamba_max_states_per_path mamba_radix_cache_strategy mamba_scheduler_strategy mamba_track_interval "
        "max_mamba_cache_size paged_experts_num_resident prefill_only_disable_kv_cache radix_cache_backend "
        "radix_eviction_policy radix_eviction_policy_config swa_full_tokens_ratio swa_prefix_tails "
        "unified_cache_external_linker_backend unified_cache_external_linker_config"
    ),
    "work is split over devices and processes otherwise": (
        "attn_cp_size attn_dp_size boundary_reduction cp_strategy dcp_comm_backend dcp_replicate_q_proj dcp_size "
        "deepep_config deepep_mode deepep_v2_mode detokenizer_worker_num device "
        "disable_aiter_allreduce_fusion_in_decode disable_aiter_allreduce_fusion_in_prefill disable_attn_tp_gather "
        "disable_custom_all_reduce dsa_prefill_cp_mode dwdp_size elastic_ep_backend elastic_ep_initial_size "
        "elastic_ep_join_mode elastic_ep_join_rank_offset enable_aiter_allreduce_fusion enable_attn_tp_input_scattered "
        "enable_cp_decode_attn_tp enable_deepep_moe enable_deepep_waterfill enable_dense_mlp_attn_tp "
        "enable_dp_attention enable_dp_attention_local_control_broadcast enable_dp_lm_head "
        "enable_dsa_prefill_context_parallel enable_ep_moe enable_eplb enable_flashinfer_allreduce_fusion "
        "enable_layernorm_sp enable_megamoe_for_layernorm_sp enable_mscclpp enable_nccl_nvls "
        "enable_nsa_prefill_context_parallel enable_p2p_check enable_pdmux enable_prefill_context_parallel "
        "enable_prefill_cp enable_scattered_sconv enable_shared_experts_attn_tp enable_symm_mem enable_torch_symm_mem "
        "enable_tp_lm_head_all_to_all enable_waterfill enforce_disable_flashinfer_allreduce_fusion "
        "ep_dispatch_algorithm ep_num_redundant_experts eplb_algorithm eplb_min_rebalancing_utilization_threshold "
        "eplb_rebalance_layers_per_chunk eplb_rebalance_num_iterations flashinfer_allreduce_fusion_backend fuseep_mode "
        "init_expert_location kt_max_deferred_experts_per_token kt_num_gpu_experts max_ep_size moe_a2a_backend "
        "moe_dense_tp_size moe_dp_size n_share_experts_fusion nnodes nsa_prefill_cp_mode pdmux_config_path "
        "pre_warm_nccl prefill_cp_mode shared_experts_tp_size sm_group_num tokenizer_worker_num use_ray"
    ),
    "batches and chunks are formed otherwise": (
        "abort_on_priority_when_disabled batch_notify_size chunked_prefill_size cuda_graph_backend_decode "
        "cuda_graph_backend_prefill cuda_graph_bs cuda_graph_bs_decode cuda_graph_bs_prefill cuda_graph_config "
        "cuda_graph_max_bs cuda_graph_max_bs_decode cuda_graph_max_bs_prefill cuda_graph_max_seq_len_prefill "
        "cuda_graph_prefill_max_context cuda_graph_tc_compiler debug_cuda_graph default_priority_value "
        "disable_cuda_graph_padding disable_decode_cuda_graph disable_overlap_cg_plan disable_overlap_schedule "
        "disable_piecewise_cuda_graph disable_prefill_cuda_graph disable_priority_preemption "
        "dynamic_batch_tokenizer_batch_size dynamic_batch_tokenizer_batch_timeout enable_breakable_cuda_graph "
        "enable_cudagraph_gc enable_dynamic_batch_tokenizer enable_dynamic_chunking enable_mixed_chunk "
        "enable_overlap_schedule enable_piecewise_cuda_graph enable_prefill_delayer enable_priority_scheduling "
        "enable_single_batch_overlap enable_tokenizer_batch_encode enable_two_batch_overlap "
        "enforce_piecewise_cuda_graph load_balance_method max_micro_batch_size max_prefill_tokens max_queued_requests "
        "max_torch_compile_bs max_total_tokens min_free_slots_delay num_continuous_decode_steps "
        "num_reserved_decode_tokens optimistic_prefill_attempts optimistic_prefill_retries "
        "piecewise_cuda_graph_compiler piecewise_cuda_graph_max_tokens piecewise_cuda_graph_tokens pp_async_batch_depth "
        "pp_max_micro_batch_size prefill_decode_interval prefill_decode_interval_min_bs prefill_delayer_max_delay_ms "
        "prefill_delayer_max_delay_passes prefill_delayer_queue_min_ratio prefill_delayer_token_usage_low_watermark "
        "prefill_max_requests prefill_only_one_req prefill_round_robin_balance priority_scheduling_preemption_threshold "
        "retraction_policy schedule_conservativeness schedule_low_priority_values_first schedule_policy "
        "scheduler_recv_interval sleep_on_idle tbo_token_distribution_threshold"
    ),
    "other kernels compute, or compile otherwise": (
        "bf16_gemm_backend decode_attention_backend disable_flashinfer disable_flashinfer_autotune "
        "disable_flashinfer_cutlass_moe_fp4_allgather disable_flashinfer_sampling disable_mla disable_nan_detection "
        "disable_shared_experts_fusion ds_channel_config_path ds_heavy_channel_num ds_heavy_channel_type "
        "ds_heavy_token_num ds_sparse_decode_threshold dsa_decode_backend dsa_paged_mqa_logits_backend "
        "dsa_prefill_backend dsa_topk_backend dsa_triton_union dsv4_attn_backend dsv4_prefill_backend "
        "enable_amd_monokernel enable_double_sparsity enable_dsa_fused_indexer enable_flashinfer_autotune "
        "enable_flashinfer_cutedsl_moe enable_flashinfer_cutlass_moe enable_flashinfer_mla enable_flashinfer_moe "
        "enable_flashinfer_mxfp4_moe enable_flashinfer_trtllm_moe enable_flashmla enable_fused_moe_sum_all_reduce "
        "enable_fused_qk_norm_rope enable_lean_attention enable_nan_detection enable_nvidia_megakernel "
        "enable_torch_compile enable_torch_compile_debug_mode enable_triton_kernel_moe enforce_shared_experts_fusion "
        "flashinfer_a2a_dispatch_type flashinfer_autotune_skip_ops flashinfer_mla_disable_ragged fp4_gemm_backend "
        "fp8_gemm_backend impl kt_amx_method kt_amx_weight_path kt_cpuinfer kt_method kt_threadpool_count "
        "kt_weight_path linear_attn_backend linear_attn_decode_backend linear_attn_prefill_backend "
        "linear_attn_verify_backend mamba_backend model_impl moe_runner_backend monokernel_backend nsa_decode "
        "nsa_decode_backend nsa_prefill nsa_prefill_backend prefill_attention_backend torch_compile_max_bs "
        "triton_attention_num_kv_splits triton_attention_split_tile_size"
    ),
    "memory is taken or given back, and with it room for the KV cache": (
        "cpu_offload_gb enable_draft_weights_cpu_backup enable_memory_saver enable_unified_memory "
        "enable_weights_cpu_backup mem_fraction_static offload_group_size offload_mode offload_num_in_group "
        "offload_prefetch_step ple_offload_backend ple_offload_dir ple_offload_embedding"
    ),
    "faults and scaling are handled while requests run": (
        "debug_tensor_dump_inject debug_tensor_dump_input_file elastic_ep_rejoin enable_elastic_expert_backup kv_canary "
        "kv_canary_real_data kv_canary_sweep_interval"
    ),
}
"""What they may move -> options that are facts of their own name below `serve.args`."""
LOCKED = frozenset(name for names in LOCKED_BECAUSE.values() for name in names.split())
