python train.py fit --trainer.devices 4 --trainer.strategy ddp
