# SPDX-License-Identifier: MIT
"""engine_vllm.py REQUESTS SECONDS: vLLM with so many clients, which send a request each, read its tokens and send the next
one after a random time. The model is a Llama of 16 layers without trained weights, so nothing is downloaded. Prints, of
the time after the first two seconds: tokens, elapsed_ms, and the 99th percentile of the time between tokens (tbt_p99_us).
Knows nothing of Spillway."""
import json
import os
import random
import sys
import tempfile
import time

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")

import vllm  # noqa: E402

WARM_UP, PAUSE, PROMPT, TOKENS = 2.0, 0.2, (64, 512), (16, 64)
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 1024,
    "intermediate_size": 2816, "num_hidden_layers": 16, "num_attention_heads": 16, "num_key_value_heads": 16,
    "max_position_embeddings": 1024, "vocab_size": 32000, "rms_norm_eps": 1e-5, "torch_dtype": "float16",
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}


class Clients:
    """Requests that arrive at random, and the tokens they got."""

    def __init__(self, engine, count):
        self.engine, self.random, self.sent = engine, random.Random(1), 0
        self.next_at = [time.monotonic() + self.pause() for _ in range(count)]
        self.of_request, self.seen = {}, {}
        self.forget()

    def forget(self):
        self.tokens, self.gaps = 0, []

    def pause(self):
        return self.random.expovariate(1 / PAUSE)

    def send(self, client):
        prompt = [self.random.randrange(3, CONFIG["vocab_size"]) for _ in range(self.random.randint(*PROMPT))]
        params = vllm.SamplingParams(max_tokens=self.random.randint(*TOKENS), ignore_eos=True, detokenize=False)
        self.sent += 1
        self.next_at[client] = None
        self.of_request[str(self.sent)] = client
        self.engine.add_request(str(self.sent), {"prompt_token_ids": prompt}, params)

    def read(self, output, now):
        count = len(output.outputs[0].token_ids)
        before, at = self.seen.get(output.request_id, (0, None))
        if at is not None and count > before:
            self.gaps.append(now - at)
        self.tokens += count - before
        self.seen[output.request_id] = (count, now)
        if output.finished:
            self.next_at[self.of_request.pop(output.request_id)] = now + self.pause()
            del self.seen[output.request_id]

    def serve(self, until):
        while (now := time.monotonic()) < until:
            for client, at in enumerate(self.next_at):
                if at is not None and at <= now:
                    self.send(client)
            if not self.engine.has_unfinished_requests():
                time.sleep(0.0005)
                continue
            for output in self.engine.step():
                self.read(output, time.monotonic())


def main():
    requests, seconds = int(sys.argv[1]), float(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(CONFIG, file)
        llm = vllm.LLM(
            model=folder, load_format="dummy", skip_tokenizer_init=True, dtype="float16", max_model_len=1024,
            gpu_memory_utilization=float(os.environ.get("VLLM_MEMORY", "0.3")), disable_log_stats=True)
    clients = Clients(llm.llm_engine, requests)
    clients.serve(time.monotonic() + WARM_UP)
    clients.forget()
    began = time.monotonic()
    clients.serve(began + seconds)
    elapsed, gaps = time.monotonic() - began, sorted(clients.gaps) or [0.0]
    print(f"engine: vllm={vllm.__version__} tokens={clients.tokens} elapsed_ms={elapsed * 1e3:.1f}"
          f" tbt_p99_us={gaps[len(gaps) * 99 // 100] * 1e6:.0f}")


main()
