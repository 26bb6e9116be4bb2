from stoker.api.environment import injected


def test_one_node_meets_itself_and_knows_its_rank() -> None:
    assert injected(1, 8, "bert", "nlp") == {
        "STOKER_NODES": "1",
        "STOKER_GPUS_PER_NODE": "8",
        "STOKER_NODE_RANK": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "8",
        "PET_NODE_RANK": "0",
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": "29500",
    }


def test_several_nodes_meet_at_the_first_ones_name_and_ranks_differ_from_pod_to_pod() -> None:
    variables = injected(2, 8, "bert", "nlp")
    assert variables["MASTER_ADDR"] == variables["PET_MASTER_ADDR"] == "bert-0.dlj-bert.nlp.svc"
    assert variables["PET_NNODES"] == "2"
    assert {name for name, value in variables.items() if value is None} == {"STOKER_NODE_RANK", "PET_NODE_RANK"}


def test_without_gpus_torchrun_starts_one_process() -> None:
    assert injected(1, 0, "prepare", "nlp")["PET_NPROC_PER_NODE"] == "1"


def test_what_launchers_set_themselves_is_never_injected() -> None:
    assert not {"WORLD_SIZE", "RANK", "LOCAL_RANK"} & injected(2, 8, "bert", "nlp").keys()
