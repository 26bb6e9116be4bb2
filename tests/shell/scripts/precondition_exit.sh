if [ ! -d /data/imagenet ]; then
  echo "no data" >&2
  exit 1
fi
command -v torchrun >/dev/null || { echo "no torchrun"; exit 1; }
torchrun --nproc_per_node=4 train.py
