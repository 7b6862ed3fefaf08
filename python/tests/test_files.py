import json
import struct

import holdfast as hf
import numpy as np
import pytest

NAMES = ["bool_", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", NAMES)
def test_npy_files_go_to_numpy_and_back(tmp_path, name):
    x = hf.array([[0, 1, 1], [1, 0, 1]], getattr(hf, name))
    hf.save(tmp_path / "x", x.T)
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), np.asarray(x.T))
    back = hf.load(tmp_path / "x.npy")
    assert back.dtype is x.dtype
    assert back.tolist() == x.T.tolist()


def test_npz_files_go_to_numpy_and_back(tmp_path):
    a, b = hf.arange(6).reshape(2, 3), hf.array(2.5)
    hf.savez(tmp_path / "both.npz", a, scale=b)
    theirs = np.load(tmp_path / "both.npz")
    np.testing.assert_array_equal(theirs["arr_0"], np.asarray(a))
    assert theirs["scale"] == 2.5
    np.savez_compressed(
        tmp_path / "theirs.npz", f=np.asfortranarray(np.arange(6).reshape(2, 3)), e=np.zeros((0, 2))
    )
    ours = hf.load(tmp_path / "theirs.npz")
    assert ours["f"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert ours["e"].shape == (0, 2)


def test_safetensors_files_keep_names_dtypes_and_metadata(tmp_path):
    arrays = {
        "half": hf.array([1.5, -2], hf.bfloat16),
        "matrix": hf.arange(6, dtype=hf.float32).reshape(2, 3),
        "mask": hf.array([True, False]),
        "nothing": hf.zeros((0, 4), hf.int64),
    }
    path = tmp_path / "model.safetensors"
    hf.save_safetensors(path, arrays, {"format": "test"})
    back, metadata = hf.load(path, return_metadata=True)
    assert metadata == {"format": "test"}
    assert list(back) == list(arrays)
    for name, a in arrays.items():
        assert back[name].dtype is a.dtype
        assert back[name].shape == a.shape
        assert back[name].tolist() == a.tolist()
    # As the format has it: a length of eight bytes, a header that is JSON, the elements.
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert (8 + length) % 8 == 0
    assert header["matrix"]["dtype"] == "F32"
    begin, end = header["matrix"]["data_offsets"]
    assert np.frombuffer(data[8 + length :][begin:end], "<f4").tolist() == [0, 1, 2, 3, 4, 5]


def test_files_that_are_not_what_they_should_be_are_refused(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"nonsense")
    (tmp_path / "x.safetensors").write_bytes(b"\xff" * 8 + b"{}")
    (tmp_path / "short.safetensors").write_bytes(b"\x01")
    for name in ("x.npy", "x.safetensors", "short.safetensors"):
        with pytest.raises(ValueError):
            hf.load(tmp_path / name)
    with pytest.raises(OSError):
        hf.load(tmp_path / "absent.npy")
    with pytest.raises(ValueError, match="float32"):
        hf.savez(tmp_path / "b.npz", hf.zeros(1, hf.bfloat16))
    assert not (tmp_path / "b.npz").exists()
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []


def test_safetensors_that_lie_outside_their_file_are_refused(tmp_path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
    path = tmp_path / "cut.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 8)
    with pytest.raises(ValueError, match="outside"):
        hf.load(path)
