"""`stoker report` over recorded histories, and its page in a real browser."""
