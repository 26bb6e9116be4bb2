"""Reads a shell script without running it: which commands it would start, with which words, and what is not known.

Others import three modules, and nothing else (import-linter holds them to it):

- `script`: `read_script`, `read_argv` and what goes with them;
- `model`: what they return, and the allowance of work that they take;
- `words`: what single words mean to programs (durations, globs, CUDA_VISIBLE_DEVICES).

`interpreter` is private to this package; its docstring says how a script is walked.
"""
