uv sync
uv run --extra cuda torchrun --nproc-per-node 8 src/train.py
