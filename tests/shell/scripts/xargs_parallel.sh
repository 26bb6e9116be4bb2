seq 0 7 | xargs -P 8 -I{} sh -c 'CUDA_VISIBLE_DEVICES={} python shard.py --i {}'
