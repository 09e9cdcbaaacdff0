"""A folder with two campaigns and an evaluation, the page of it in this process, and the page on a port."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_folder import TOKEN, Page, make_campaign, some_entries

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("optimade", reason="the extra 'server' is not installed")

import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from anchor.server.app import create
from anchor.server.folder import Folder
from anchor.server.run import _listening

BASE = "http://127.0.0.1:8321"


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nobody changes it."""
    root = tmp_path_factory.mktemp("folder")
    make_campaign(root / "runs" / "first", 96).close()
    make_campaign(root / "runs" / "second", 32, refined=0).close()
    evaluation = root / "evaluations" / "mine"
    evaluation.mkdir(parents=True)
    (evaluation / "evaluation.json").write_text(json.dumps({"label": "half an evaluation"}))
    return root


@pytest.fixture(scope="session")
def app(root: Path, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    state = tmp_path_factory.mktemp("state")
    return create(Folder(root), some_entries(), token=TOKEN, port=8321, state=state)


@pytest.fixture
def client(app: FastAPI) -> TestClient:
    return TestClient(app, base_url=BASE)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The page of a folder of its own, on a port."""
    root = tmp_path_factory.mktemp("served")
    make_campaign(root / "runs" / "first", 96, budget=400).close()
    make_campaign(root / "runs" / "second", 32, refined=0).close()
    listener = _listening(0)
    port = listener.getsockname()[1]
    state = tmp_path_factory.mktemp("state")
    app = create(Folder(root), some_entries(), token=TOKEN, port=port, state=state)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield Page(f"http://127.0.0.1:{port}", app)
    app.state.shop.closing = True
    server.should_exit = True
    thread.join(10)
    listener.close()
