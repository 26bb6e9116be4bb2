set -o pipefail
torchrun --nproc_per_node=8 train.py 2>&1 | tee -a logs/train_$(date +%F).log
exit ${PIPESTATUS[0]}
