from rig.nodes.manifests import NodeSpec, node


def test_a_node_with_a_long_name_gets_a_hostname_that_a_label_can_hold() -> None:
    name = f"kwok-{'x' * 57}-1.example"
    assert node(NodeSpec("n1"))["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    found = node(NodeSpec(name))["metadata"]
    assert found["name"] == name
    assert found["labels"]["kubernetes.io/hostname"] == f"kwok-{'x' * 57}"
