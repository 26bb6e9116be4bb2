"""`stoker doctor`: checks an installation, and says what to do about what is wrong. Used by cli/doctor.py."""
