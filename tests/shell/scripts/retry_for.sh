for attempt in 1 2 3; do
  torchrun --nproc_per_node=8 train.py --resume && break
  echo "attempt $attempt failed"
  sleep 60
done
