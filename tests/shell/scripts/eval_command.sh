cmd="accelerate launch --num_processes 4 --multi_gpu train.py"
cmd="${cmd} --learning_rate 1e-4"
echo "$cmd"
eval "$cmd"
