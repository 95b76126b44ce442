"""The CUDA stack: libraries on disk and in memory, and whether they fit the driver."""
