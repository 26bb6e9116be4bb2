"""The process that issues and renews the webhook's serving certificate."""
