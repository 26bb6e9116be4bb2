torchrun --nproc-per 4 --max-restarts=3 --tee 3 train.py --nproc_per_node 9
