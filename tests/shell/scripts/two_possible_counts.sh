if [ -d /fast ]; then N=4; else N=8; fi
torchrun --nproc_per_node=$N train.py
