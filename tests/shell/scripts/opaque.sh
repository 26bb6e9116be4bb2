bash scripts/train.sh
./launch --all
"$@"
eval "$COMMAND"
