torchrun --nproc_per_node=8 train.py
if [ $? -ne 0 ]; then
  echo failed
  sleep 1d
fi
