// Matrices of 8 x 8 elements that the lanes of a simdgroup share, two side by side each, placed as
// on Apple's GPUs: lane 0 has (0, 0) and (0, 1), lane 1 (0, 2) and (0, 3), lane 2 (1, 0) and (1, 1).

hf_inline unsigned hf_row_of_lane(unsigned lane) { return (lane >> 2 & 4u) | (lane >> 1 & 3u); }
hf_inline unsigned hf_column_of_lane(unsigned lane) { return (lane >> 1 & 4u) | (lane << 1 & 2u); }
hf_inline unsigned hf_lane_of(unsigned row, unsigned column) {
  return (row & 4u) << 2 | (row & 3u) << 1 | (column & 4u) << 1 | (column & 2u) >> 1;
}

namespace metal {

template <class T, int Columns, int Rows>
struct simdgroup_matrix {
  static_assert(Columns == 8 && Rows == 8, "a simdgroup_matrix has 8 x 8 elements");
  hf_vec<T, 2> hf_own;

  simdgroup_matrix() = default;
  // A diagonal.
  hf_inline explicit simdgroup_matrix(T value) {
    const unsigned row = hf_row_of_lane(hf_own_lane);
    const unsigned column = hf_column_of_lane(hf_own_lane);
    hf_own = hf_vec<T, 2>(row == column ? value : T(0), row == column + 1 ? value : T(0));
  }
  hf_inline hf_vec<T, 2>& thread_elements() { return hf_own; }
  hf_inline const hf_vec<T, 2>& thread_elements() const { return hf_own; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
#ifdef hf_has_bfloat
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
#endif

template <class T, int Columns, int Rows, class V>
hf_inline simdgroup_matrix<T, Columns, Rows> make_filled_simdgroup_matrix(V value) {
  simdgroup_matrix<T, Columns, Rows> made;
  made.hf_own = hf_vec<T, 2>(T(value));
  return made;
}
template <class T, class P>
hf_inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& to, P from, ulong elements_per_row = 8,
                              ulong2 origin = ulong2(0UL), bool transposed = false) {
  const ulong row = hf_row_of_lane(hf_own_lane);
  const ulong column = hf_column_of_lane(hf_own_lane);
  for (ulong i = 0; i < 2; ++i) {
    const ulong y = origin.y + (transposed ? column + i : row);
    const ulong x = origin.x + (transposed ? row : column + i);
    to.hf_own[long(i)] = T(from[long(y * elements_per_row + x)]);
  }
}
template <class T, class P>
hf_inline void simdgroup_store(const simdgroup_matrix<T, 8, 8>& from, P to,
                               ulong elements_per_row = 8, ulong2 origin = ulong2(0UL),
                               bool transposed = false) {
  const ulong row = hf_row_of_lane(hf_own_lane);
  const ulong column = hf_column_of_lane(hf_own_lane);
  for (ulong i = 0; i < 2; ++i) {
    const ulong y = origin.y + (transposed ? column + i : row);
    const ulong x = origin.x + (transposed ? row : column + i);
    to[long(y * elements_per_row + x)] = from.hf_own[long(i)];
  }
}

// d = a b + c; products of two-byte floats are summed up in float.
template <class D, class A, class B, class C>
hf_inline void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                             const simdgroup_matrix<A, 8, 8>& a,
                                             const simdgroup_matrix<B, 8, 8>& b,
                                             const simdgroup_matrix<C, 8, 8>& c hf_takes_line) {
  const unsigned lane = hf_own_lane;
  const unsigned row = hf_row_of_lane(lane);
  const unsigned column = hf_column_of_lane(lane);
  float first = float(c.hf_own.x);
  float second = float(c.hf_own.y);
  for (unsigned k = 0; k < 8; k += 2) {
    const hf_vec<A, 2> of_a = simd_shuffle(a.hf_own, hf_lane_of(row, k) hf_with_line);
    for (unsigned i = 0; i < 2; ++i) {
      const hf_vec<B, 2> of_b = simd_shuffle(b.hf_own, hf_lane_of(k + i, column) hf_with_line);
      first += float(of_a[long(i)]) * float(of_b.x);
      second += float(of_a[long(i)]) * float(of_b.y);
    }
  }
  d.hf_own = hf_vec<D, 2>(D(first), D(second));
}
template <class D, class A, class B>
hf_inline void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, const simdgroup_matrix<A, 8, 8>& a,
                                  const simdgroup_matrix<B, 8, 8>& b hf_takes_line) {
  simdgroup_multiply_accumulate(d, a, b, make_filled_simdgroup_matrix<D, 8, 8>(0.0f) hf_with_line);
}
template <class T>
hf_inline simdgroup_matrix<T, 8, 8> operator*(const simdgroup_matrix<T, 8, 8>& a,
                                              const simdgroup_matrix<T, 8, 8>& b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}

}  // namespace metal
