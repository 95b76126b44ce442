"""Access to what a host may have made hostile: files, child processes, driver calls, each bounded."""
