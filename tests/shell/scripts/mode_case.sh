MODE=${MODE:-train}
case $MODE in
  train)
    torchrun --nproc_per_node=4 train.py ;;
  eval)
    torchrun --nproc_per_node=1 eval.py ;;
  *)
    echo "unknown mode"; exit 1 ;;
esac
