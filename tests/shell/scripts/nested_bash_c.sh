nohup bash -lc 'source /opt/conda/etc/profile.d/conda.sh; conda activate train; exec python -m torch.distributed.run --nproc_per_node=2 train.py' > /logs/out.txt 2>&1
