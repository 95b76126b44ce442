"""What servers show, whatever their engine: log lines, served models, and what must not be repeated."""
