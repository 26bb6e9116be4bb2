"""What makes the steps of a distributed training slow, told from its operation trace by replaying the trace."""
