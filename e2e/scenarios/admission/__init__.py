"""The webhook as users and administrators meet it."""
