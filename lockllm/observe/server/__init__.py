"""One LLM server: which process or command it is, what it loads and what it says."""
