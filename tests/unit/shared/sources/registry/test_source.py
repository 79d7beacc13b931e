import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from rig.scripted_http import Answer, ScriptedRequest, ScriptedServer, reply
from shared.errors import AuthDenied, InvalidURI, LarderError, SourceNotFound, Unreachable, UnsafePath
from shared.manifest import File
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.registry.source import ArtifactManifest, ArtifactSource, Descriptor, decide_files
from shared.sources.settings import SourceSettings
from shared.uri.artifact import ArtifactUri

Serve = Callable[[Answer], ScriptedServer]
Open = Callable[..., ArtifactSource]
URI = ArtifactUri("r.test", "org/m", "v1")
DIGEST = "sha256:" + "a" * 64
TITLE = "org.opencontainers.image.title"
UNPACK = "io.deis.oras.content.unpack"
RAW = "application/vnd.cncf.model.weight.v1.raw"


def layer(
    annotations: dict[str, str | None] | None = None, media_type: str = RAW, digest: str = DIGEST, size: int = 5
) -> Descriptor:
    return Descriptor(digest, size, media_type, annotations)


def named(path: str, media_type: str = RAW, key: str = TITLE) -> Descriptor:
    return layer({key: path}, media_type)


@pytest.mark.parametrize("key", [TITLE, "org.cncf.model.filepath", "org.cnai.model.filepath"])
def test_a_layer_becomes_the_file_named_in_its_annotation(key: str) -> None:
    found = decide_files(ArtifactManifest((named("d/w.safetensors", key=key),)), URI)
    assert found == [File("d/w.safetensors", 5, DIGEST)]


def test_the_path_of_a_model_pack_comes_before_the_title() -> None:
    both = layer({"org.cncf.model.filepath": "d/w", TITLE: "w"})
    assert [f.path for f in decide_files(ArtifactManifest((both,)), URI)] == ["d/w"]


def test_a_plain_layer_is_a_file_whatever_its_type_says() -> None:
    plain = named("w.bin", "application/vnd.oci.image.layer.v1.tar")  # what oras writes for any file
    assert decide_files(ArtifactManifest((plain, layer(media_type="application/vnd.oci.empty.v1+json"))), URI)


@pytest.mark.parametrize(
    ("bad", "phrase"),
    [
        (layer(media_type="application/vnd.oci.image.layer.v1.tar+gzip"), "without a file name"),
        (layer(), "without a file name"),
        (layer({TITLE: None}), "without a file name"),
        (named("./"), "without a file name"),
        (
            named("w", "application/vnd.cncf.model.weight.v1.tar+zstd"),
            "compressed with zstd .* push it as raw files, as a tar, or",
        ),
        (named("w", "application/vnd.cncf.model.weight.v1.tar+"), "compressed with  "),
        (layer({TITLE: "w"}, digest="sha512:" + "a" * 128), "invalid digest"),
        (layer({TITLE: "w"}, digest="sha256:../../x"), "invalid digest"),
        (layer({TITLE: "w"}, size=-1), "size"),
    ],
)
def test_other_layers_are_refused(bad: Descriptor, phrase: str) -> None:
    with pytest.raises(InvalidURI, match=phrase):
        decide_files(ArtifactManifest((named("good"), bad)), URI)


@pytest.mark.parametrize(
    ("packed", "archive"),
    [
        (named("w", "application/vnd.cncf.model.weight.v1.tar"), "tar"),
        (named("w", "application/vnd.cncf.model.weight.config.v1.tar+gzip"), "tar.gz"),
        (named("w", "application/vnd.cnai.model.doc.v1.tar"), "tar"),
        (layer({TITLE: "w", UNPACK: "true"}, "application/vnd.oci.image.layer.v1.tar+gzip"), "tar.gz"),
        (layer({TITLE: "w", UNPACK: "false"}, "application/vnd.oci.image.layer.v1.tar+gzip"), ""),
        (named("w", "application/vnd.cncf.model.weight.v1.raw"), ""),
        (named("w", "Application/VND.CNCF.Model.Weight.v1.TAR"), "tar"),
        (named("w", "application/vnd.cncf.model.weight.v1.tar+gzip; x=y"), "tar.gz"),
        (named("./w", "application/vnd.cncf.model.weight.v1.tar"), "tar"),
        (named("./w"), ""),
        (named("././/w"), ""),
        (named("w", "application/vnd.example.model.weight.v1.tar"), ""),
    ],
)
def test_layers_of_model_packs_and_directories_of_oras_are_archives(packed: Descriptor, archive: str) -> None:
    assert decide_files(ArtifactManifest((packed,)), URI) == [File("w", 5, DIGEST, archive=archive)]


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("d/w.gguf", "d/w.gguf"),
        ("./d/", "d"),
        (".", "layer-aaaaaaaaaaaa"),
        ("./", "layer-aaaaaaaaaaaa"),
        ("../w", "../w"),
    ],
)
def test_an_archive_is_named_after_the_path_it_was_packed_from(path: str, name: str) -> None:
    layers = (named(path, "application/vnd.cncf.model.weight.v1.tar", "org.cncf.model.filepath"),)
    assert [f.path for f in decide_files(ArtifactManifest(layers), URI)] == [name]


@pytest.mark.parametrize("annotations", [None, {}, {UNPACK: "true"}, {TITLE: None, "x": "y"}])
def test_an_archive_without_a_name_is_called_by_its_digest(annotations: dict[str, str | None] | None) -> None:
    layers = (layer(annotations, "application/vnd.cncf.model.weight.v1.tar+gzip"),)
    assert decide_files(ArtifactManifest(layers), URI) == [File("layer-" + "a" * 12, 5, DIGEST, archive="tar.gz")]


@pytest.mark.parametrize("media_type", [RAW, "application/vnd.cncf.model.weight.v1.tar"])
def test_two_layers_of_one_name_are_refused_with_both(media_type: str) -> None:
    other = layer({TITLE: "w"}, media_type, "sha256:" + "b" * 64)
    with pytest.raises(UnsafePath, match=f"two layers for 'w', {DIGEST} and sha256:{'b' * 64}"):
        decide_files(ArtifactManifest((named("w"), other)), URI)


def manifest_of(*paths: str, **more: Any) -> bytes:
    layers = [{"digest": DIGEST, "size": 1, "mediaType": RAW, "annotations": {TITLE: path}} for path in paths]
    return json.dumps({"schemaVersion": 2, "layers": layers, **more}).encode()


@pytest.fixture
def open_artifact() -> Iterator[Callable[..., ArtifactSource]]:
    with ExitStack() as stack:

        def make(
            server: ScriptedServer,
            credentials: Credentials = ANONYMOUS,
            reference: str = "v1",
            settings: SourceSettings | None = None,
        ) -> ArtifactSource:
            settings = settings or SourceSettings(registries=(server.url,), allow_addresses=("127.0.0.1", "::1"))
            uri = ArtifactUri(f"127.0.0.1:{server.port}", "org/m", reference)
            source = ArtifactSource(uri, credentials, settings)
            stack.callback(source.close)
            return source

        yield make


def config_for(*servers: ScriptedServer) -> Credentials:
    auths = {f"127.0.0.1:{server.port}": {"username": "user", "password": "5ecret"} for server in servers}
    return Credentials({".dockerconfigjson": json.dumps({"auths": auths})})


def test_names_that_leave_the_directory_are_unsafe(serve: Serve, open_artifact: Open) -> None:
    with pytest.raises(UnsafePath):
        open_artifact(serve(lambda _: reply(200, manifest_of("../w")))).resolve()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (reply(200, b"<html>"), Unreachable),
        (reply(200, b'{"layers": [{"digest": "\xff", "size": 1}]}'), Unreachable),
        (reply(200, b'{"layers": 5}'), InvalidURI),
        (reply(200, b'{"layers": [{"digest": null, "size": 1}]}'), InvalidURI),
        (reply(200, b'{"layers": null, "manifests": null}'), SourceNotFound),
        (reply(200, bytes(5_000_000)), Unreachable),
        (reply(200, b"{}"), SourceNotFound),
        (reply(404, b'{"errors": [{"code": "NAME_UNKNOWN"}]}'), SourceNotFound),
        (reply(401), AuthDenied),
        (reply(401, WWW_Authenticate='Bearer realm="https://[::1"'), InvalidURI),
        (reply(401, WWW_Authenticate='Bearer realm="file:///etc/passwd"'), LarderError),
        (reply(401, WWW_Authenticate='Basic realm="r"'), AuthDenied),
        (reply(503), Unreachable),
    ],
)
def test_invalid_manifests_of_a_registry_are_refused(
    serve: Serve, open_artifact: Open, answer: bytes, error: type[LarderError]
) -> None:
    with pytest.raises(error):
        open_artifact(serve(lambda _: answer)).resolve()


def test_null_fields_of_a_manifest_are_ignored(serve: Serve, open_artifact: Open) -> None:
    empty = {"digest": DIGEST, "size": 1, "mediaType": None, "annotations": {TITLE: "w", "x": None}}
    body = json.dumps({"layers": [empty], "manifests": None}).encode()
    assert [f.path for f in open_artifact(serve(lambda _: reply(200, body))).resolve().files] == ["w"]


def test_a_manifest_that_does_not_match_its_digest_is_refused(serve: Serve, open_artifact: Open) -> None:
    body = manifest_of("w")
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    server = serve(lambda _: reply(200, body))
    assert open_artifact(server, reference=digest).resolve().uri.endswith(digest)
    with pytest.raises(Unreachable, match="a manifest other than"):
        open_artifact(server, reference=DIGEST).resolve()


def test_a_password_goes_to_the_registry_that_requests_it(serve: Serve, open_artifact: Open) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        return (
            reply(200, manifest_of("w")) if "authorization" in asked.headers else reply(401, WWW_Authenticate="Basic")
        )

    server = serve(answer)
    assert open_artifact(server, config_for(server)).resolve().files
    assert "authorization" not in server.asked[0].headers
    with pytest.raises(AuthDenied, match="name a Secret"):
        open_artifact(
            server, Credentials({".dockerconfigjson": '{"auths": {"other.test": {"auth": "dTpw"}}}'})
        ).resolve()


def test_a_password_does_not_go_to_a_token_service_of_another_host(serve: Serve, open_artifact: Open) -> None:
    tokens = serve(lambda _: reply(200, b'{"token": "anonymous"}'))

    realm = f'Bearer realm="http://localhost:{tokens.port}/t",service="s"'
    server = serve(lambda _: reply(401, WWW_Authenticate=realm))
    with pytest.raises(AuthDenied, match=rf"add localhost:{tokens.port} to the Secret's annotation"):
        open_artifact(server, config_for(server)).resolve()
    assert [asked.headers.get("authorization") for asked in tokens.asked] == [None]
    for too_little in ("localhost", f"localhost:{server.port}"):
        with pytest.raises(AuthDenied):
            open_artifact(server, Credentials(config_for(server).values, (too_little,))).resolve()
        assert "authorization" not in tokens.asked[-1].headers
    named_too = Credentials(config_for(server).values, (f"localhost:{tokens.port}",))
    with pytest.raises(AuthDenied):
        open_artifact(server, named_too).resolve()
    assert "Basic" in tokens.asked[-1].headers["authorization"]


def test_a_token_that_ended_is_requested_again(serve: Serve, open_artifact: Open) -> None:
    authorization: list[str] = []

    def answer(asked: ScriptedRequest) -> bytes:
        if asked.target.startswith("/t?"):
            authorization.append(f"t{len(authorization)}")
            return reply(200, json.dumps({"token": authorization[-1]}).encode())
        if (
            not authorization
            or asked.headers.get("authorization") != f"Bearer {authorization[-1]}"
            or asked.target.endswith("b" * 64)
        ):
            return reply(401, WWW_Authenticate=f'Bearer realm="{server.url}/t",service="s"')
        return reply(200, b"x")

    server = serve(answer)
    source = open_artifact(server)
    file = File("w", 1, DIGEST)
    source.open(file).close()
    source.open(file).close()
    assert len(authorization) == 1
    authorization.append("the registry has forgotten the first")
    source.open(file).close()
    assert len(authorization) == 3
    with pytest.raises(AuthDenied):
        source.open(File("w", 1, "sha256:" + "b" * 64))


def test_an_identity_token_is_exchanged(serve: Serve, open_artifact: Open) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if asked.method == "POST":
            assert b"refresh_token=idt" in asked.body
            return reply(200, b'{"access_token": "t"}')
        if asked.headers.get("authorization") != "Bearer t":
            return reply(401, WWW_Authenticate=f'Bearer realm="{server.url}/t",service="s"')
        return reply(200, manifest_of("w"))

    server = serve(answer)
    auths = {f"127.0.0.1:{server.port}": {"identitytoken": "idt"}}
    assert open_artifact(server, Credentials({"config.json": json.dumps({"auths": auths})})).resolve().files


def test_a_signed_link_gets_no_token(serve: Serve, open_artifact: Open) -> None:
    store = serve(lambda _: reply(200, b"x"))

    def answer(asked: ScriptedRequest) -> bytes:
        if "authorization" not in asked.headers:
            return reply(401, WWW_Authenticate="Basic")
        return reply(307, Location=f"{store.url}/blob?signature=s")

    server = serve(answer)
    source = open_artifact(server, config_for(server))
    source.open(File("w", 1, DIGEST)).close()
    assert "authorization" not in store.asked[0].headers


def test_plain_http_is_for_registries_of_the_settings_alone() -> None:
    settings = SourceSettings(registries=("http://r.test:5000",))
    for registry, scheme in (("r.test:5000", "http"), ("r.test:5001", "https"), ("r.test", "https")):
        source = ArtifactSource(ArtifactUri(registry, "org/m"), ANONYMOUS, settings)
        assert source._base == f"{scheme}://{registry}/v2/org/m"


@pytest.mark.parametrize(("repository", "there"), [("m", "library/m"), ("org/m", "org/m")])
def test_docker_hub_is_contacted_at_its_registry_host(repository: str, there: str) -> None:
    source = ArtifactSource(ArtifactUri("docker.io", repository), ANONYMOUS, SourceSettings())
    assert source._base == f"https://registry-1.docker.io/v2/{there}"


@pytest.mark.parametrize("good", ["1" + "0" * 400, "1e999", "NaN", "-5", '"x"'])
def test_a_token_with_an_impossible_lifetime_raises_only_larder_errors(
    serve: Serve, open_artifact: Open, good: str
) -> None:
    def answer(asked: ScriptedRequest) -> bytes:
        if asked.target.startswith("/t?"):
            return reply(200, b'{"token": "t", "expires_in": %s}' % good.encode())
        return reply(401, WWW_Authenticate=f'Bearer realm="{server.url}/t",service="s"')

    server = serve(answer)
    with pytest.raises(LarderError):
        open_artifact(server).resolve()
