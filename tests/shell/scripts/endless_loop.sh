torchrun --nproc_per_node=8 train.py
while true; do
  echo done
  sleep 600
done
