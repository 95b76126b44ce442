"""A host, looked at: the sources run side by side and become one observation."""
