"""The vocabulary: every fact that identifies a serving system, once."""
