"""What one tenant, pod or object does that is odd, and the bystander beside it whose job goes on as without it."""
