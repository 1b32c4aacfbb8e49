#!/usr/bin/env python3
"""Makes tests/golden/fixture: reference values in float64 for a user without the PyTorch references.

Needs: pip install jax safetensors numpy.   Run: python3 make_fixture.py
The model, the loss and the optimizer are written out in plain array operations; gradients are JAX's. Nothing of it is needed to build, run or test.
"""
import json
import math
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)
EPS = 1e-5
OUT = pathlib.Path(__file__).parent / "fixture"


def norm(x, w, b):
    m = x.mean(-1, keepdims=True)
    return (x - m) / jnp.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + EPS) * w + b


def attend(qkv, H):
    B, T, C3 = qkv.shape
    C = C3 // 3
    q, k, v = (u.reshape(B, T, H, C // H).transpose(0, 2, 1, 3) for u in jnp.split(qkv, 3, 2))
    s = q @ k.swapaxes(2, 3) / math.sqrt(C // H)
    s = jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((T, T), bool)), s, -jnp.inf), -1)
    return (s @ v).transpose(0, 2, 1, 3).reshape(B, T, C)


def gelu(x):
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def cross_entropy(logits, targets, s):
    logp = jax.nn.log_softmax(logits, -1)
    return -(1 - s) * jnp.take_along_axis(logp, targets[..., None], -1)[..., 0] - s * logp.mean(-1)


def forward(p, cfg, tokens):
    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][: tokens.shape[1]]
    for i in range(cfg["n_layer"]):
        w = {k.split(f".h.{i}.")[1]: v for k, v in p.items() if f".h.{i}." in k}
        a = norm(x, w["ln_1.weight"], w["ln_1.bias"]) @ w["attn.c_attn.weight"] + w["attn.c_attn.bias"]
        x = x + attend(a, cfg["n_head"]) @ w["attn.c_proj.weight"] + w["attn.c_proj.bias"]
        m = gelu(norm(x, w["ln_2.weight"], w["ln_2.bias"]) @ w["mlp.c_fc.weight"] + w["mlp.c_fc.bias"])
        x = x + m @ w["mlp.c_proj.weight"] + w["mlp.c_proj.bias"]
    x = norm(x, p["transformer.ln_f.weight"], p["transformer.ln_f.bias"])
    return x @ p["transformer.wte.weight" if cfg["tied"] else "lm_head.weight"].T


def init(cfg, rng):
    C, V, P = cfg["n_embd"], cfg["vocab_size"], cfg["n_positions"]
    shapes = {"transformer.wte.weight": (V, C), "transformer.wpe.weight": (P, C)}
    for i in range(cfg["n_layer"]):
        h = f"transformer.h.{i}."
        for name, fan in (("ln_1", None), ("attn.c_attn", (C, 3 * C)), ("attn.c_proj", (C, C)), ("ln_2", None),
                          ("mlp.c_fc", (C, 4 * C)), ("mlp.c_proj", (4 * C, C))):
            shapes[h + name + ".weight"] = fan or (C,)
            shapes[h + name + ".bias"] = (fan[1],) if fan else (C,)
    shapes["transformer.ln_f.weight"] = shapes["transformer.ln_f.bias"] = (C,)
    if not cfg["tied"]:
        shapes["lm_head.weight"] = (V, C)
    out = {}
    for name, shape in shapes.items():
        gain = ".ln_" in name and name.endswith("weight")
        out[name] = (rng.standard_normal(shape) * 0.1 + (1 if gain else 0)).astype(np.float32)
    return out


def rate(o, s):
    peak, low, w, total = o["learning_rate"], o["min_learning_rate"], o["warmup_steps"], o["steps"]
    if s < w:
        return peak * (s + 1) / w
    return low + 0.5 * (1 + math.cos(math.pi * (s - w) / (total - w))) * (peak - low)


def depth(name, L):
    if ".h." in name:
        return int(name.split(".h.")[1].split(".")[0]) + 1
    return 0 if "wte" in name or "wpe" in name else L + 1


def train(p32, cfg, batches, o):
    p = {k: v.astype(np.float64) for k, v in p32.items()}
    m, v = ({k: np.zeros_like(x) for k, x in p.items()} for _ in range(2))
    value_and_grad = jax.jit(jax.value_and_grad(
        lambda p, x, y: cross_entropy(forward(p, cfg, x), y, o["label_smoothing"]).mean()))
    curve = []
    for step, (x, y) in enumerate(batches):
        loss, g = value_and_grad(p, x, y)
        size = math.sqrt(sum(float((a ** 2).sum()) for a in g.values()))
        scale = min(1.0, o["grad_clip"] / (size + 1e-6)) if o["grad_clip"] > 0 else 1.0
        lr, t = rate(o, step), step + 1
        for k in p:
            gk = np.asarray(g[k]) * scale
            m[k] = o["beta1"] * m[k] + (1 - o["beta1"]) * gk
            v[k] = o["beta2"] * v[k] + (1 - o["beta2"]) * gk ** 2
            r = lr * o["layer_lr_decay"] ** (cfg["n_layer"] + 1 - depth(k, cfg["n_layer"]))
            if p[k].ndim >= 2:
                p[k] = p[k] * (1 - r * o["weight_decay"])
            p[k] = p[k] - r * (m[k] / (1 - o["beta1"] ** t)) / (np.sqrt(v[k] / (1 - o["beta2"] ** t)) + o["epsilon"])
        curve.append({"step": t, "loss": float(loss), "grad_norm": size, "learning_rate": lr})
    return p, curve


def model_case(name, cfg, B, T, steps, seed, runs):
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    p32 = init(cfg, rng)
    tokens = rng.integers(0, cfg["vocab_size"], (steps * B, T + 1)).astype(np.int32)
    batches = [(tokens[i * B:(i + 1) * B, :-1], tokens[i * B:(i + 1) * B, 1:]) for i in range(steps)]
    save_file(p32, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({
        "model_type": "gpt2", "vocab_size": cfg["vocab_size"], "n_positions": cfg["n_positions"],
        "n_embd": cfg["n_embd"], "n_layer": cfg["n_layer"], "n_head": cfg["n_head"], "layer_norm_epsilon": EPS,
        "tie_word_embeddings": cfg["tied"]}, indent=1) + "\n")
    x, y = batches[0]
    p = {k: v.astype(np.float64) for k, v in p32.items()}
    ref = {"tokens": tokens, "logits": np.asarray(forward(p, cfg, x))}
    for label, s in (("", 0.0), ("smoothed.", 0.1)):
        loss, g = jax.value_and_grad(lambda p: cross_entropy(forward(p, cfg, x), y, s).mean())(p)
        ref[label + "loss"] = np.asarray(loss).reshape(1)
        ref.update({label + "grad." + k: np.asarray(a) for k, a in g.items()})
    save_file(ref, folder / "step.safetensors")
    curves = {}
    for run, o in runs.items():
        final, curve = train(p32, cfg, batches, o)
        curves[run] = {"optimizer": o, "curve": curve}
        save_file({k: np.ascontiguousarray(a) for k, a in final.items()}, folder / f"after_{run}.safetensors")
    (folder / "curves.json").write_text(json.dumps({"batch": B, "sequence_length": T, "steps": steps, "runs": curves},
                                                   indent=1) + "\n")


def op_cases():
    rng, t = np.random.default_rng(5), {}

    def record(name, fn, **inputs):
        y, pull = jax.vjp(lambda *a: fn(*a), *inputs.values())
        dy = rng.standard_normal(y.shape)
        t[name + ".out"], t[name + ".d_out"] = np.asarray(y), dy
        for (k, v), d in zip(inputs.items(), pull(jnp.asarray(dy))):
            t[f"{name}.{k}"], t[f"{name}.d_{k}"] = v, np.asarray(d)

    r = rng.standard_normal
    for rows, C in ((1, 8), (3, 65)):
        record(f"layernorm_{rows}x{C}", norm, x=r((rows, C)) * 3 + 1, weight=r(C), bias=r(C))
    record("gelu", gelu, x=np.concatenate([np.linspace(-12, 12, 97), [-50., -1e-6, 0., 50.]]))
    for rows, K, N in ((1, 1, 1), (7, 5, 9)):
        record(f"linear_{rows}x{K}x{N}", lambda x, w, b: x @ w + b, x=r((rows, K)), weight=r((K, N)), bias=r(N))
    for B, H, T, S in ((1, 1, 1, 4), (2, 3, 7, 8), (1, 2, 33, 16)):
        record(f"attention_{B}x{H}x{T}x{S}", lambda qkv, H=H: attend(qkv, H), qkv=r((B, T, 3 * H * S)))
    for rows, V, s in ((1, 2, 0.0), (5, 11, 0.1)):
        name, targets = f"cross_entropy_{rows}x{V}_ls{s}", rng.integers(0, V, rows).astype(np.int32)
        record(name, lambda z, targets=targets, s=s: cross_entropy(z, targets, s), logits=r((rows, V)) * 4)
        t[name + ".targets"] = targets
    record("softmax_rows_with_large_values", lambda x: jax.nn.softmax(x, -1),
           x=np.array([[1000., 1000., -1000.], [-1e4, 0., 1e4], [0., 0., 0.]]))
    save_file({k: np.ascontiguousarray(v) for k, v in t.items()}, OUT / "ops.safetensors")


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    plain = dict(learning_rate=1e-2, min_learning_rate=1e-3, warmup_steps=2, steps=5, beta1=0.9, beta2=0.95,
                 epsilon=1e-8, weight_decay=0.1, grad_clip=1.0, label_smoothing=0.0, layer_lr_decay=1.0)
    rich = dict(plain, label_smoothing=0.1, layer_lr_decay=0.8, grad_clip=0.5)
    shape = dict(n_layer=4, n_head=2, n_embd=16, n_positions=12, vocab_size=29)
    model_case("tied", dict(shape, tied=True), 4, 8, 5, 1, {"plain": plain, "rich": rich})
    model_case("untied", dict(shape, tied=False), 4, 8, 5, 2, {"plain": plain, "rich": rich})
    op_cases()
