"""The flag in the manifest that makes nodes check for pickles, and retries after a refusal."""

import random

from agent.reconciler.retries import Retries
from shared.api.model_node import Entry
from shared.errors import PickleRefused, UnsafePath
from shared.manifest import File, build_manifest, decode_manifest
from shared.selection.choice import make_selection
from shared.selection.select import select_files

PLAIN = build_manifest("hf://o/m@c", "c", [File("a", 1)])


def test_manifests_without_the_flag_keep_their_digests_and_allow_pickles() -> None:
    assert PLAIN.encode() == b'{"uri":"hf://o/m@c","revision":"c","files":[{"path":"a","size":1}]}'
    assert decode_manifest(PLAIN.encode(), PLAIN.digest).allow_pickle


def test_a_refusal_of_pickles_survives_encoding() -> None:
    strict, _ = select_files(PLAIN, make_selection(pickle=False))
    assert b'"allow_pickle":false' in strict.encode()
    assert decode_manifest(strict.encode(), strict.digest) == strict


def test_a_model_refused_for_a_pickle_is_not_retried_for_thirty_days() -> None:
    retries, entry = Retries(random.Random(1).uniform), Entry(id="m", revision="c", manifest="d")
    first = retries.failure(entry, PickleRefused("x"), None, 0.0, transient=False)
    assert first.due_s > 30 * 86_400
    assert first.due_s != float("inf")  # which is for what waits for space, and looked at all the time
    assert retries.failure(entry, UnsafePath("x"), None, 0.0, transient=False).due_s < 2 * 3600
