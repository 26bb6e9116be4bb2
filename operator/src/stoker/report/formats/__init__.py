"""What `stoker report` writes: a page, a table, JSON, and a summary for the terminal; all from one statement."""
