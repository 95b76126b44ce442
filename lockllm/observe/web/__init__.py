"""HTTP with a server that may be hostile: bounded time, bounded size, whole JSON only."""
