exec timeout --signal=TERM 48h nice -n 5 numactl --interleave=all env OMP_NUM_THREADS=8 /usr/local/bin/torchrun --nproc_per_node=8 train.py
echo never
