bash -c "cd /app && NCCL_DEBUG=INFO torchrun --nproc_per_node 4 main.py && echo done"
