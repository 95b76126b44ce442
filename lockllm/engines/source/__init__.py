"""Reads the options of an installed release out of its source: parsed, never imported."""
