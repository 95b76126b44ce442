"""What the model is told: which chat template wins, how a conversation is rendered, and fixed probes of both."""
