composer -n 4 train.py config.yaml
composer train.py
