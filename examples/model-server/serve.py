"""Serves models on CPUs: `serve.py MODEL...`, each a directory or the name of a repository, by default $MODEL_PATH."""

import json
import os
import signal
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer

PORT = 8080
MOST_TOKENS = 256
LONGEST_BODY_BYTES = 65536


class Model:
    """One model in memory; it answers one request at a time."""

    def __init__(self, name: str) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(name)
        self._weights = AutoModelForCausalLM.from_pretrained(name)
        self._lock = threading.Lock()

    def complete(self, prompt: str, max_tokens: int) -> str:
        """Return the most likely continuation of the prompt."""
        given = self._tokenizer(prompt, return_tensors="pt")
        with self._lock:
            (tokens,) = self._weights.generate(**given, max_new_tokens=max_tokens, do_sample=False)
        return str(self._tokenizer.decode(tokens[given["input_ids"].shape[1] :], skip_special_tokens=True))


class Handler(BaseHTTPRequestHandler):
    """`POST /v1/completions` as in OpenAI's API, `GET /v1/models`, and `GET /healthz` for probes."""

    models: dict[str, Model]

    def do_GET(self) -> None:
        """Answer probes, and list the models."""
        if self.path == "/v1/models":
            self._answer(HTTPStatus.OK, {"object": "list", "data": [{"id": name} for name in self.models]})
        else:
            self._answer(HTTPStatus.OK if self.path == "/healthz" else HTTPStatus.NOT_FOUND, {})

    def do_POST(self) -> None:
        """Answer `{"model": ..., "prompt": ..., "max_tokens": ...}`; with one model, its name may be left out."""
        if self.path != "/v1/completions":
            self._answer(HTTPStatus.NOT_FOUND, {"error": {"message": f"there is no {self.path}"}})
            return
        try:
            length = min(int(self.headers["Content-Length"]), LONGEST_BODY_BYTES)
            asked = json.loads(self.rfile.read(length))
            name = asked.get("model", next(iter(self.models)))
            model, prompt = self.models[name], str(asked["prompt"])
            max_tokens = max(1, min(int(asked.get("max_tokens", 16)), MOST_TOKENS))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self._answer(HTTPStatus.BAD_REQUEST, {"error": {"message": f"{type(error).__name__}: {error}"}})
            return
        choice = {"index": 0, "text": model.complete(prompt, max_tokens), "finish_reason": "length"}
        self._answer(HTTPStatus.OK, {"object": "text_completion", "model": name, "choices": [choice]})

    def _answer(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Load the models, then serve them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # the first process of a container ignores it by default
    names = sys.argv[1:] or [os.environ["MODEL_PATH"]]
    Handler.models = {name: Model(name) for name in names}
    print(f"serving {', '.join(names)} on port {PORT}")
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()


if __name__ == "__main__":
    main()
