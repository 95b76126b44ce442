"""GPUs: drivers, devices, and which of them a process sees."""
