"""What `stoker diagnose` is made of: where jobs come from, how they are looked at, how the answer is printed."""
