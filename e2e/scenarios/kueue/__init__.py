"""Jobs that the real Kueue manages."""
