until torchrun --nproc_per_node=8 train.py; do
  echo "crashed with $?" >&2
  sleep 5
done
