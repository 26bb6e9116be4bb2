set -e
NPROC=8
log() { echo "[$(date)] $*"; }
run() {
  local name=$1; shift
  log "start $name"
  torchrun --nproc_per_node="$NPROC" "$@"
}
unused() { python unused.py; }
run pretrain pretrain.py --steps 1000
NPROC=4 run finetune finetune.py
