from rig.fake_nodes.manifests import NodeSpec, node


def test_the_hostname_label_of_a_long_node_name_is_shortened_to_fit() -> None:
    name = f"kwok-{'x' * 57}-1.example"
    assert node(NodeSpec("n1"))["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    found = node(NodeSpec(name))["metadata"]
    assert found["name"] == name
    assert found["labels"]["kubernetes.io/hostname"] == f"kwok-{'x' * 57}"
