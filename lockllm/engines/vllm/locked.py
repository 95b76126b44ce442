"""Options of vLLM that are locked as they are given, each with what it may move: what no refresh writes.

Read in the help and the source of the releases. Where it was not sure that an option moves no output, it stands here.
"""

from __future__ import annotations

LOCKED_BECAUSE = {
    "other code runs in the server": (
        "additional_config io_processor_plugin logits_processor_pattern logits_processors middleware "
        "model_class_overrides override_neuron_config reasoning_parser_plugin scheduler_cls tool_parser_plugin "
        "worker_cls worker_extension_cls"
    ),
    "tokens are proposed ahead and accepted otherwise": (
        "ngram_prompt_lookup_max ngram_prompt_lookup_min num_lookahead_slots spec_decoding_acceptance_method "
        "speculative_disable_by_batch_size speculative_disable_mqa_scorer speculative_draft_tensor_parallel_size "
        "speculative_max_model_len speculative_model_quantization typical_acceptance_sampler_posterior_alpha "
        "typical_acceptance_sampler_posterior_threshold"
    ),
    "adapters are loaded and applied otherwise": (
        "default_mm_loras enable_lora enable_lora_bias enable_mixed_moe_lora_format enable_moe_shared_loras "
        "enable_prompt_adapter enable_tower_connector_lora fully_sharded_loras long_lora_scaling_factors lora_dtype "
        "lora_extra_vocab_size lora_target_modules max_cpu_loras max_lora_cls_labels max_lora_rank max_loras "
        "max_prompt_adapter_token max_prompt_adapters prompt_adapters qlora_adapter_name_or_path specialize_active_lora"
    ),
    "tools, reasoning and structured output change what is generated": (
        "anthropic_disabled_thinking_effort cohere_format cohere_is_reasoning_model enable_auto_tool_choice "
        "enable_reasoning exclude_tools_when_tool_choice_none expand_tools_even_if_tool_choice_none "
        "guided_decoding_backend guided_decoding_disable_additional_properties guided_decoding_disable_any_whitespace "
        "guided_decoding_disable_fallback reasoning_config reasoning_effort_map structured_outputs_config tool_server "
        "tool_strict_level"
    ),
    "images, sound and video become other input": (
        "disable_mm_preprocessor_cache enable_mm_embeds enable_multimodal_encoder_data_parallel interleave_mm_strings "
        "language_model_only limit_mm_per_prompt media_io_kwargs mm_cache_preprocessor mm_device_do_normalize "
        "mm_encoder_attn_backend mm_encoder_attn_dtype mm_encoder_fp8_scale_path mm_encoder_fp8_scale_save_margin "
        "mm_encoder_fp8_scale_save_path mm_encoder_only mm_encoder_tp_mode mm_hasher_algorithm mm_ipc_gpu_memory_gb "
        "mm_processor_cache_gb mm_processor_cache_type mm_processor_device mm_processor_kwargs "
        "mm_shm_cache_max_object_size_mb mm_tensor_ipc skip_mm_profiling trust_request_mm_kwargs video_pruning_method "
        "video_pruning_rate"
    ),
    "other tokens go into the model": (
        "chat_template_text_format enable_prompt_embeds response_role skip_tokenizer_init tokenizer_pool_extra_config "
        "tokenizer_pool_size tokenizer_pool_type tokens_only trust_request_chat_template"
    ),
    "tokens are drawn or reported otherwise": (
        "aux_output_config diffusion_config disable_logprobs_during_spec_decoding enable_batch_sharded_sampling "
        "enable_return_routed_experts logprobs_mode max_logprobs multi_step_stream_outputs return_sampling_mask "
        "return_tokens_as_token_ids stream_interval use_fp64_gumbel watermark watermark_config"
    ),
    "models that embed, classify or score answer otherwise": (
        "convert enable_flash_late_interaction override_pooler_config pooler_config runner task "
        "use_gpu_for_pooling_score"
    ),
    "weights come from elsewhere, or are read otherwise": (
        "code_revision config_format enable_ep_weight_filter hf_config_path hf_overrides ignore_patterns "
        "max_parallel_loading_workers model_loader_extra_config pt_load_map_location rope_scaling rope_theta "
        "safetensors_load_strategy safetensors_prefetch_block_size safetensors_prefetch_num_threads "
        "weight_transfer_config"
    ),
    "values are kept or computed in another precision": (
        "allow_deprecated_quantization calculate_kv_scales enable_bf16x3_router_gemm "
        "enable_mamba_cache_stochastic_rounding kv_cache_dtype_skip_layers mamba_cache_dtype mamba_cache_philox_rounds "
        "mamba_ssm_cache_dtype override_attention_dtype quantization_config quantization_param_path"
    ),
    "KV cache and prefixes are kept, moved and reused otherwise": (
        "block_size disable_hybrid_kv_cache_manager ec_manager_config ec_transfer_config "
        "enable_mamba_fine_grained_prefix_cache enable_mamba_shared_prefix_checkpoint engram_config kv_events_config "
        "kv_sharing_fast_prefill kv_transfer_config mamba_block_size mamba_cache_mode prefix_cache_retention_interval "
        "prefix_caching_hash_algo prefix_match_unit replayssm_buffer_len swa_bounded_replay use_v2_block_manager"
    ),
    "work is split over devices and processes otherwise": (
        "all2all_backend api_server_count cp_kv_cache_interleave_size data_parallel_backend data_parallel_external_lb "
        "data_parallel_hybrid_lb data_parallel_multi_port_external_lb dcp_comm_backend dcp_kv_cache_interleave_size "
        "dcp_q_replicate decode_context_parallel_size device disable_custom_all_reduce "
        "disable_nccl_for_dp_synchronization distributed_executor_backend dp_sync_interval elastic_ep_max_dp_size "
        "enable_elastic_ep enable_eplb enable_expert_parallel enable_hc_sp enable_shm_tensor_arena eplb_config "
        "eplb_log_balancedness eplb_step_interval eplb_window_size expert_placement_strategy nnodes "
        "num_redundant_experts numa_bind prefill_context_parallel_size renderer_num_workers worker_use_ray"
    ),
    "batches and chunks are formed otherwise": (
        "async_scheduling cuda_graph_sizes cudagraph_capture_sizes dbo_decode_token_threshold "
        "dbo_prefill_token_threshold disable_async_output_proc disable_chunked_mm_input enable_dbo "
        "long_prefill_token_threshold long_prefill_token_threshold_adaptive max_context_len_to_capture "
        "max_cudagraph_capture_size max_long_partial_prefills max_num_active_seqs max_num_partial_prefills "
        "max_num_queued_reqs max_num_queued_tokens max_num_scheduled_tokens max_seq_len_to_capture num_scheduler_steps "
        "performance_mode preemption_mode prefill_schedule_interval scheduler_delay_factor scheduler_reserve_full_isl "
        "scheduling_policy ubatch_size"
    ),
    "other kernels compute, or compile otherwise": (
        "attention_config compilation_config disable_cascade_attn disable_sliding_window enable_flashinfer_autotune "
        "gdn_prefill_backend ir_op_priority kda_decode_backend kda_prefill_backend kernel_config linear_backend "
        "mamba_backend mamba_ssu_algorithm model_impl moe_backend monokernel optimization_level "
        "sparse_indexer_topk_backend use_replayssm"
    ),
    "memory is taken or given back, and with it room for the KV cache": (
        "cpu_offload_gb cpu_offload_params enable_cumem_allocator enable_nccl_comm_suspend enable_sleep_mode "
        "kv_cache_memory_bytes kv_offloading_backend kv_offloading_size num_gpu_blocks_override offload_backend "
        "offload_group_size offload_num_in_group offload_params offload_prefetch_step sleep_mode_backend "
        "sleep_mode_offload_cudagraph sleep_preserve_parameter_names swap_space"
    ),
    "faults and scaling are handled while requests run": ("enable_fault_tolerance fault_tolerance_config"),
}
"""What they may move -> options that are facts of their own name below `serve.args`."""
LOCKED = frozenset(name for names in LOCKED_BECAUSE.values() for name in names.split())
