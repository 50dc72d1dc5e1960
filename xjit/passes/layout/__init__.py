"""Where elements lie in memory."""
