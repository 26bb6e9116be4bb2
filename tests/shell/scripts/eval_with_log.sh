run_cmd="deepspeed --num_gpus=6 --master_port 12345 finetune.py --deepspeed ds.json &> log.txt"
echo ${run_cmd}
eval ${run_cmd}
set +x
