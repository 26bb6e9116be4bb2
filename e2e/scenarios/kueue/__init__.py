"""Jobs that Kueue manages, with a stand-in of Kueue that keeps its contract: the real one was not run."""
