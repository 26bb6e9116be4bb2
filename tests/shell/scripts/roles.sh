case "$STOKER_NODE_RANK" in
  0) ray start --head --port 6379; python trainer.py ;;
  *) ray start --address $MASTER_ADDR:6379 --block ;;
esac
