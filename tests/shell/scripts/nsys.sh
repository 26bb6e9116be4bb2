nsys profile -o report -t cuda,nvtx --force-overwrite true torchrun --nproc_per_node 8 train.py --steps 100
