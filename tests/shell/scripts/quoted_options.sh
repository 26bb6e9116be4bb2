torchrun "--nproc_per_node=4" '--nnodes=1' train.py "--name=a b"
