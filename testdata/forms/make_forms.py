"""Writes one tiny Needle 2 checkpoint in many forms. Run with each NumPy: python make_forms.py OUT TAG.

Values are f32 numbers with few digits, so that every form holds exactly the same ones."""
import collections
import dataclasses
import io
import json
import os
import pickle
import struct
import sys
import zipfile

import numpy as np

CONFIG = {
    "vocab_size": 16, "d_model": 8, "attn_dim": 8, "num_heads": 2, "num_kv_heads": 1,
    "num_layers": 2, "max_seq_len": 32, "engram_orders": [2, 3], "engram_slots": 5,
    "engram_layers": [1], "mhc_lanes": 2, "contrastive_dim": 4,
}
SHAPES = {
    "embedding/embedding": (16, 8),
    "engrams_0/embedding": (2, 5, 4),
    "engrams_0/key_proj/kernel": (8, 8),
    "engrams_0/taps": (4, 8),
    "engrams_0/value_proj/kernel": (8, 8),
    "contrastive_head/log_temp": (),
    "contrastive_head/probes": (3, 8),
    "contrastive_head/proj/kernel": (24, 4),
    "stack/final_norm/scale": (8,),
    "stack/layers/block/ZCRMSNorm_0/scale": (2, 8),
    "stack/layers/block/attn_gate": (2,),
    "stack/layers/block/hadamard_mlp/d1": (2, 8),
    "stack/layers/block/hadamard_mlp/d2": (2, 8),
    "stack/layers/block/hadamard_mlp/d3": (2, 8),
    "stack/layers/block/post_attn_norm/scale": (2, 8),
    "stack/layers/block/pre_hada_norm/scale": (2, 8),
    "stack/layers/block/self_attn/gate_proj/kernel": (2, 8, 8),
    "stack/layers/block/self_attn/k_norm/scale": (2, 4),
    "stack/layers/block/self_attn/k_proj/kernel": (2, 8, 4),
    "stack/layers/block/self_attn/out_proj/kernel": (2, 8, 8),
    "stack/layers/block/self_attn/q_norm/scale": (2, 4),
    "stack/layers/block/self_attn/q_proj/kernel": (2, 8, 8),
    "stack/layers/block/self_attn/v_proj/kernel": (2, 8, 4),
    "stack/mhc_a_post": (2,), "stack/mhc_a_pre": (2,), "stack/mhc_a_res": (2,),
    "stack/mhc_b_post": (2, 2), "stack/mhc_b_pre": (2, 2), "stack/mhc_b_res": (2, 2, 2),
    "stack/mhc_phi_post": (2, 16, 2), "stack/mhc_phi_pre": (2, 16, 2),
    "stack/mhc_phi_res": (2, 16, 4),
}


def leaves():
    rng = np.random.RandomState(7)
    # Multiples of 1/64 below 2: exact in f16, bf16, f32 and f64.
    return {name: (rng.randint(-100, 100, shape) / np.float32(64)).astype(np.float32).reshape(shape)
            for name, shape in SHAPES.items()}


def tree(flat, make=dict):
    root = make()
    for name, value in flat.items():
        node = root
        *parts, last = name.split("/")
        for part in parts:
            node = node.setdefault(part, make())
        node[last] = value
    return root


def write_safetensors(path, flat):
    header, data = {}, b""
    for name, value in sorted(flat.items()):
        raw = np.ascontiguousarray(value).tobytes()
        header[name] = {"dtype": "F32", "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    header["__metadata__"] = {"format_version": "2", "config": json.dumps(CONFIG)}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def npy(value, version=(1, 0), pad_to=0, text=None, descr=None):
    if text is None:
        text = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }" % (
            descr or value.dtype.str, value.flags.f_contiguous and not value.flags.c_contiguous,
            value.shape)
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    text = text.ljust(max(pad_to, 118)) + "\n"
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text.encode() + value.tobytes(order)


def write_npz(path, members, config=CONFIG):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in members.items():
            archive.writestr(zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0)), raw,
                             zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo("config.json", (1980, 1, 1, 0, 0, 0)), json.dumps(config))


@dataclasses.dataclass
class ModelConfig:
    vocab_size: int = 0


def config_object():
    config = ModelConfig()
    config.__dict__.update(CONFIG)
    config.engram_orders = tuple(CONFIG["engram_orders"])
    return config


def write_pickle(path, params, protocol, config=CONFIG):
    with open(path, "wb") as file:
        pickle.dump({"format_version": 2, "params": params, "config": config, "step": 3, "run": {}},
                    file, protocol=protocol)


def main(out, tag):
    os.makedirs(out, exist_ok=True)
    flat = leaves()
    at = lambda name: os.path.join(out, name)
    for protocol in (2, 3, 4, 5):
        write_pickle(at(f"{tag}-protocol{protocol}.pkl"), tree(flat), protocol)
    fortran = {name: np.asfortranarray(value) for name, value in flat.items()}
    write_pickle(at(f"{tag}-fortran4.pkl"), tree(fortran), 4)
    write_pickle(at(f"{tag}-fortran5.pkl"), tree(fortran), 5)
    if tag != "numpy2":
        return
    import ml_dtypes
    write_safetensors(at("tiny.safetensors"), flat)
    half = {name: value.astype(ml_dtypes.bfloat16) for name, value in flat.items()}
    for protocol in (2, 4, 5):
        write_pickle(at(f"bf16-protocol{protocol}.pkl"), tree(half), protocol)
    write_pickle(at("big-endian.pkl"), tree({n: v.astype(">f4") for n, v in flat.items()}), 4)
    ordered = tree(flat, collections.OrderedDict)
    write_pickle(at("ordered-dict.pkl"), ordered, 4)
    write_pickle(at("config-object.pkl"), tree(flat), 4, config_object())
    write_pickle(at("config-object2.pkl"), tree(flat), 2, config_object())
    shared = dict(flat)
    shared["mtp_copy/scale"] = shared["stack/final_norm/scale"]
    write_pickle(at("shared-leaf.pkl"), tree(shared), 4)

    def forms(**options):
        return {name: npy(value, **options) for name, value in flat.items()}

    write_npz(at("version1.npz"), forms())
    write_npz(at("version2.npz"), forms(version=(2, 0)))
    write_npz(at("version3.npz"), forms(version=(3, 0)))
    write_npz(at("padded.npz"), forms(version=(2, 0), pad_to=65536))
    write_npz(at("fortran.npz"), {n: npy(v) for n, v in fortran.items()})
    write_npz(at("big-endian.npz"), {n: npy(v.astype(">f4")) for n, v in flat.items()})
    write_npz(at("f64.npz"), {n: npy(v.astype("<f8")) for n, v in flat.items()})
    write_npz(at("bf16.npz"), {n: npy(v, descr="<V2") for n, v in half.items()})
    reordered = {}
    for name, value in flat.items():
        shape = "(" + "".join(f"{size}L," for size in value.shape) + ")"
        reordered[name] = npy(value, text='{"shape":%s,"fortran_order":False ,"descr":"<f4"}' % shape)
    write_npz(at("reordered.npz"), reordered)

    def broken(name, **changes):
        members = forms()
        for leaf, raw in changes.items():
            members[leaf.replace("__", "/")] = raw
        write_npz(at(f"refused-{name}.npz"), members)

    norm = flat["stack/final_norm/scale"]
    broken("object", stack__final_norm__scale=npy(norm, descr="|O"))
    broken("integer", stack__final_norm__scale=npy(norm.astype("<i8")))
    broken("anonymous", stack__final_norm__scale=npy(half["stack/final_norm/scale"], descr="|V2"))
    broken("short", stack__final_norm__scale=npy(norm)[:-1])
    broken("long", stack__final_norm__scale=npy(norm) + b"\0")
    broken("no-npy", stack__final_norm__scale=b"not an array at all")
    broken("version4", stack__final_norm__scale=npy(norm, version=(4, 0)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
