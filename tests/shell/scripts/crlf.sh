NPROC=4
torchrun --nproc_per_node=$NPROC train.py
