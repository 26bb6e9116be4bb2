#!/bin/bash
# Fine-tune a language model on all nodes of the job.
set -euo pipefail

# ---------------------------------------------------------------------------------------------------- configuration
export EXPERIMENT="${EXPERIMENT:-llama-sft}"
export RUN_ID="${RUN_ID:-$(date +%Y%m%d)-@NUMBER@}"
export DATA_ROOT=/mnt/datasets
export OUTPUT_ROOT=/mnt/checkpoints
export CACHE_ROOT=/tmp/cache
export TOKENIZERS_PARALLELISM=false
export OMP_NUM_THREADS=8
export NCCL_DEBUG=WARN
export NCCL_IB_DISABLE=0
export NCCL_SOCKET_IFNAME=eth0
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
export HF_HOME="$CACHE_ROOT/huggingface"
export WANDB_DIR="$OUTPUT_ROOT/wandb"
export WANDB_MODE=offline
export WANDB_PROJECT="$EXPERIMENT"
export TORCH_NCCL_ASYNC_ERROR_HANDLING=1
export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTHONUNBUFFERED=1
export PYTHONFAULTHANDLER=1

MODEL="${MODEL:-7b}"
STAGE="${STAGE:-sft}"
SEED=@NUMBER@
EPOCHS=3
SAVE_STEPS=500
EVAL_STEPS=250
WARMUP=0.03
LOG_LEVEL=info
GPUS=$(nvidia-smi -L | wc -l)
NODES=${PET_NNODES:-1}
RANK=${PET_NODE_RANK:-0}
WORLD=$((GPUS * NODES))

# --------------------------------------------------------------------------------------------------------- functions
log() {
  echo "[$(date +%H:%M:%S)] rank $RANK: $*"
}

die() {
  log "error: $*" >&2
  exit 1
}

require() {
  local name=$1
  if ! command -v "$name" > /dev/null 2>&1; then
    die "$name is not installed"
  fi
}

link_dataset() {
  local name=$1
  local target="$CACHE_ROOT/datasets/$name"
  mkdir -p "$CACHE_ROOT/datasets"
  if [ ! -e "$target" ]; then
    ln -s "$DATA_ROOT/$name" "$target"
  fi
}

# ----------------------------------------------------------------------------------------------------- model's sizes
case "$MODEL" in
  1b)
    BATCH=32
    ACCUMULATION=1
    LEARNING_RATE=3e-4
    MODEL_PATH=$DATA_ROOT/models/llama-1b
    ;;
  7b)
    BATCH=8
    ACCUMULATION=4
    LEARNING_RATE=2e-5
    MODEL_PATH=$DATA_ROOT/models/llama-7b
    ;;
  13b)
    BATCH=4
    ACCUMULATION=8
    LEARNING_RATE=1e-5
    MODEL_PATH=$DATA_ROOT/models/llama-13b
    ;;
  *)
    die "no such model: $MODEL"
    ;;
esac

if [ "$STAGE" = "dpo" ]; then
  BATCH=$((BATCH / 2))
  ACCUMULATION=$((ACCUMULATION * 2))
  LEARNING_RATE=5e-7
fi

GLOBAL_BATCH=$((BATCH * ACCUMULATION * WORLD))
log "global batch size: $GLOBAL_BATCH"

# ------------------------------------------------------------------------------------------------------- environment
require python
require torchrun
require nvidia-smi

if [ "$RANK" -ge "$NODES" ]; then
  die "rank $RANK of $NODES nodes"
fi

nvidia-smi --query-gpu=name,memory.total --format=csv
python --version
python -c "import torch; print(torch.__version__, torch.cuda.is_available())"

if [ -f /opt/venv/bin/activate ]; then
  source /opt/venv/bin/activate
fi

if [ -f requirements-extra.txt ]; then
  log "extra requirements are expected in the image"
fi

ulimit -n 65536
ulimit -l unlimited || true

mkdir -p "$OUTPUT_ROOT/$EXPERIMENT/$RUN_ID"
mkdir -p "$WANDB_DIR"
mkdir -p "$HF_HOME"

# ---------------------------------------------------------------------------------------------------------- datasets
DATASETS=(openassistant dolly ultrachat sharegpt code-alpaca math-instruct)
for name in "${DATASETS[@]}"; do
  link_dataset "$name"
done

MIXTURE=""
for name in "${DATASETS[@]}"; do
  weight=1.0
  if [ "$name" = "sharegpt" ]; then
    weight=2.0
  elif [ "$name" = "math-instruct" ]; then
    weight=0.5
  fi
  MIXTURE="$MIXTURE${MIXTURE:+,}$name:$weight"
done
log "mixture: $MIXTURE"

if [ ! -d "$MODEL_PATH" ]; then
  die "there is no model at $MODEL_PATH"
fi

# --------------------------------------------------------------------------------------------------------- arguments
ARGS=(
  --model_name_or_path "$MODEL_PATH"
  --data_mixture "$MIXTURE"
  --data_cache "$CACHE_ROOT/datasets"
  --output_dir "$OUTPUT_ROOT/$EXPERIMENT/$RUN_ID"
  --per_device_train_batch_size "$BATCH"
  --gradient_accumulation_steps "$ACCUMULATION"
  --learning_rate "$LEARNING_RATE"
  --num_train_epochs "$EPOCHS"
  --warmup_ratio "$WARMUP"
  --lr_scheduler_type cosine
  --bf16 true
  --gradient_checkpointing true
  --dataloader_num_workers 8
  --dataloader_pin_memory true
  --save_steps "$SAVE_STEPS"
  --eval_steps "$EVAL_STEPS"
  --logging_steps 10
  --log_level "$LOG_LEVEL"
  --seed "$SEED"
  --report_to wandb
)

if [ "$STAGE" = "dpo" ]; then
  ARGS+=(--beta 0.1 --reference_model "$MODEL_PATH")
fi

LAST=$(ls -d "$OUTPUT_ROOT/$EXPERIMENT"/*/checkpoint-* 2> /dev/null | sort -V | tail -n 1 || true)
if [ -n "$LAST" ]; then
  log "resuming from $LAST"
  ARGS+=(--resume_from_checkpoint "$LAST")
fi

# ---------------------------------------------------------------------------------------------------------- training
log "starting on $NODES nodes with $GPUS GPUs each"
torchrun \
  --nnodes="$NODES" \
  --nproc_per_node="$GPUS" \
  --node_rank="$RANK" \
  --rdzv_backend=c10d \
  --rdzv_endpoint="$MASTER_ADDR:${MASTER_PORT:-29500}" \
  train.py "${ARGS[@]}" 2>&1 | tee "$OUTPUT_ROOT/$EXPERIMENT/$RUN_ID/train-$RANK.log"

# --------------------------------------------------------------------------------------------------------- afterwards
if [ "$RANK" -eq 0 ]; then
  log "copying the configuration"
  cp -r configs "$OUTPUT_ROOT/$EXPERIMENT/$RUN_ID/"
  echo "$MIXTURE" > "$OUTPUT_ROOT/$EXPERIMENT/$RUN_ID/mixture.txt"
fi
log "done"
