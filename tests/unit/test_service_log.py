"""Facts and phases out of a server's own log."""

from __future__ import annotations

import pytest
from shared_material import names, read, shared

from fleetbench.service_log import Phase, ServiceLog, follow, phase, read_service_log

NEWER = """\
(APIServer pid=3) INFO 03-02 10:00:00 [api_utils.py:300]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.33.0
(APIServer pid=3) INFO 03-02 10:00:00 [api_utils.py:2] non-default args: {'port': 1, 'data_parallel_size': 2}
(APIServer pid=3) INFO 03-02 10:00:01 [model.py:600] Resolved architecture: Qwen3ForCausalLM
(APIServer pid=3) INFO 03-02 10:00:01 [model.py:900] Using max model len 40960
(EngineCore_DP0 pid=5) INFO 03-02 10:00:20 [core.py:90] Initializing a V1 LLM engine (v0.33.0) with config: \
model='/m', dtype=torch.bfloat16, max_seq_len=40960, download_dir=None, load_format=auto, \
tensor_parallel_size=2, pipeline_parallel_size=1, data_parallel_size=1, device_config=cuda
(Worker_TP0 pid=7) INFO 03-02 10:00:30 [gpu_model_runner.py:1] Starting to load model /m...
(Worker_TP0 pid=7) INFO 03-02 10:00:31 [cuda.py:400] Using FLASH_ATTN attention backend out of ['X']
(Worker_TP0 pid=7) INFO 03-02 10:00:40 [default_loader.py:1] Loading weights took 8.25 seconds
(Worker_TP1 pid=8) INFO 03-02 10:00:41 [default_loader.py:1] Loading weights took 9.50 seconds
(Worker_TP0 pid=7) INFO 03-02 10:00:42 [runner.py:1] Model loading took 14.25 GiB memory and 11.5 seconds
(Worker_TP0 pid=7) INFO 03-02 10:01:00 [monitor.py:5] torch.compile took 17.75 s in total
(Worker_TP0 pid=7) INFO 03-02 10:01:02 [gpu_worker.py:5] Available KV cache memory: 50.50 GiB
(Worker_TP1 pid=8) INFO 03-02 10:01:02 [gpu_worker.py:5] Available KV cache memory: 49.25 GiB
(EngineCore_DP0 pid=5) INFO 03-02 10:01:03 [kv.py:1] GPU KV cache size: 1,234,560 tokens, \
Maximum concurrency for 40,960 tokens per request: 30.14x
(Worker_TP0 pid=7) INFO 03-02 10:01:20 [runner.py:1] Graph capturing finished in 15 secs, took 0.75 GiB
(EngineCore_DP0 pid=5) INFO 03-02 10:01:22 [core.py:1] init engine (profile, create kv cache, warmup model) \
took 40.25 s (compilation: 17.75 s)
(APIServer pid=3) INFO 03-02 10:01:23 [api_server.py:6] Starting vLLM server on http://0.0.0.0:8001
(APIServer pid=3) INFO:     Application startup complete.
"""
OLDER = """\
INFO 03-02 10:00:00 [api_server.py:1] vLLM API server version 0.10.1.1
INFO 03-02 10:00:40 [gpu_model_runner.py:1] Model loading took 14.9888 GiB and 3.211 seconds
INFO 03-02 10:00:50 [kv_cache_utils.py:1] GPU KV cache size: 401,328 tokens
INFO 03-02 10:00:50 [kv_cache_utils.py:1] Maximum concurrency for 8,192 tokens per request: 48.99x
INFO 03-02 10:01:00 [core.py:1] init engine (profile, create kv cache, warmup model) took 52.01 seconds
INFO 03-02 10:01:01 [api_server.py:1] Starting vLLM API server 0 on http://0.0.0.0:8000
"""


def test_a_newer_log_gives_all_facts() -> None:
    assert read_service_log(NEWER) == ServiceLog(
        phase=Phase.READY,
        vllm_version="0.33.0",
        tp=2,
        pp=1,
        dp=2,
        max_model_len=40960,
        model="/m",
        dtype="bfloat16",
        attention_backend="FLASH_ATTN",
        model_load_gib=14.25,
        weights_load_s=9.5,
        model_load_s=11.5,
        kv_cache_gib=49.25,
        kv_cache_tokens=1_234_560,
        concurrency_tokens=40_960,
        max_concurrency=30.14,
        graph_capture_s=15,
        graph_gib=0.75,
        compile_s=17.75,
        engine_init_s=40.25,
        url="http://0.0.0.0:8001",
    )


def test_an_older_log_gives_what_it_has() -> None:
    log = read_service_log(OLDER)

    assert log.vllm_version == "0.10.1.1"
    assert (log.model_load_gib, log.model_load_s) == (14.9888, 3.211)
    assert (log.kv_cache_tokens, log.concurrency_tokens, log.max_concurrency) == (401_328, 8_192, 48.99)
    assert (log.engine_init_s, log.url) == (52.01, "http://0.0.0.0:8000")
    assert log.phase is Phase.COMPILING
    assert log.kv_cache_gib is None


def test_reading_in_pieces_gives_the_same() -> None:
    log = ServiceLog()
    for line in NEWER.splitlines(keepends=True):
        log = follow(log, line)

    assert log == read_service_log(NEWER)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (
            "(Worker_TP0 pid=1) Loading safetensors checkpoint shards:  27% Completed | 3/11 [00:19<00:52]",
            "loading 27%",
        ),
        ("INFO 03-02 10:00:00 [model.py:1] Resolved architecture: X", "importing"),
        (
            "Mar 02 07:11:09 h v[9]: (W pid=9) INFO 03-02 10:00:00 [b.py:1] Dynamo bytecode transform time",
            "compiling",
        ),
        (
            "Capturing CUDA graphs (FULL):  90%|#### | 46/51\rCapturing CUDA graphs (FULL): 100%|##",
            "capturing 100%",
        ),
        ("(APIServer pid=3) INFO:     Application startup complete.", "ready"),
        ("(APIServer pid=3) INFO:     Waiting for application startup.", ""),
        ("", ""),
    ],
)
def test_one_line_shows_its_phase(line: str, shown: str) -> None:
    assert phase(line) == shown


def test_a_phase_never_goes_back() -> None:
    log = read_service_log(
        "(Worker_TP0 pid=1) INFO 03-02 10:00:00 [m.py:5] torch.compile took 9.0 s in total\n"
        "(Worker_TP1 pid=2) Loading safetensors checkpoint shards:  10% Completed | 1/11\n"
    )

    assert (log.phase, log.percent) == (Phase.COMPILING, None)


def test_what_a_client_sends_is_no_fact() -> None:
    sent = "(A pid=1) INFO 03-02 10:00:00 [l.py:4] Received request c: prompt: 'GPU KV cache size: 1 tokens'"
    error = "(A pid=1) ERROR 03-02 10:00:00 [l.py:4] Application startup complete."

    assert read_service_log(f"{sent}\n{error}") == ServiceLog()


@pytest.mark.parametrize(
    "name", names("captures/gpu/*/*-cold.server.log.xz") + names("captures/cpu/serve/*eager.log")
)
def test_a_real_start_is_read_to_its_end(name: str) -> None:
    log = read_service_log(read(shared(name)))

    assert log.phase is Phase.READY
    assert log.vllm_version
    assert log.tp
    assert log.kv_cache_tokens
    assert log.max_concurrency
    assert log.engine_init_s


def test_a_real_two_gpu_start_gives_the_measured_figures() -> None:
    log = read_service_log(read(shared("captures", "gpu", "h200x2", "c-30b-tp2.server.log.xz")))

    assert (log.tp, log.kv_cache_tokens, log.kv_cache_gib) == (2, 2_104_512, 96.34)
    assert (log.compile_s, log.engine_init_s, log.graph_capture_s) == (50.68, 100.16, 29)
    assert log.attention_backend == "FLASH_ATTN"
