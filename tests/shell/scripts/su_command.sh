chown -R trainer /workspace
su - trainer -c "cd /workspace; /opt/conda/bin/torchrun --nproc-per-node=4 train.py"
