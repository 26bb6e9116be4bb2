if false; then
  torchrun --nproc_per_node=1 debug.py
fi
if [ 1 -eq 2 ]; then python a.py; fi
DEBUG=0
if [[ $DEBUG == 1 ]]; then
  python -m debugpy --wait-for-client --listen 5678 train.py
else
  torchrun --nproc_per_node=8 train.py
fi
exit 0
torchrun --nproc_per_node=2 leftover.py
