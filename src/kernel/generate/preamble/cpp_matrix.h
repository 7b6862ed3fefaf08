// Matrices of C columns, each a vector of R elements, as Metal's.

template <class T, int C, int R>
struct hf_matrix {
  hf_vec<T, R> hf_columns[C];

  hf_matrix() = default;
  // A diagonal.
  template <class A>
    requires(hf_is_element<A, T>)
  hf_inline explicit hf_matrix(const A& value) {
    for (int c = 0; c < C; ++c) {
      for (int r = 0; r < R; ++r) hf_columns[c][r] = c == r ? T(value) : T(0);
    }
  }
  // Its columns, or its elements, column by column.
  template <class A, class B, class... Rest>
    requires((hf_width<A> == R && 2 + sizeof...(Rest) == C) ||
             (hf_width<A> == 0 && 2 + sizeof...(Rest) == C * R))
  hf_inline hf_matrix(const A& a, const B& b, const Rest&... rest) {
    int i = 0;
    hf_put(i, a);
    hf_put(i, b);
    (hf_put(i, rest), ...);
  }
  template <class U>
    requires(!hf_same<U, T>)
  hf_inline explicit hf_matrix(const hf_matrix<U, C, R>& from) {
    for (int c = 0; c < C; ++c) hf_columns[c] = hf_vec<T, R>(from.hf_columns[c]);
  }
  template <class A>
  hf_inline void hf_put(int& i, const A& value) {
    if constexpr (hf_width<A> == 0) {
      hf_columns[i / R][i % R] = T(value);
      ++i;
    } else {
      hf_columns[i / R] = value;
      i += R;
    }
  }
  hf_inline hf_vec<T, R>& operator[](int c) { return hf_columns[c]; }
  hf_inline const hf_vec<T, R>& operator[](int c) const { return hf_columns[c]; }

  template <class F>
  static hf_inline hf_matrix hf_of_columns(F f) {
    hf_matrix made;
    for (int c = 0; c < C; ++c) made.hf_columns[c] = f(c);
    return made;
  }
  friend hf_inline hf_matrix operator+(const hf_matrix& a, const hf_matrix& b) {
    return hf_of_columns([&](int c) { return a[c] + b[c]; });
  }
  friend hf_inline hf_matrix operator-(const hf_matrix& a, const hf_matrix& b) {
    return hf_of_columns([&](int c) { return a[c] - b[c]; });
  }
  friend hf_inline hf_matrix operator-(const hf_matrix& a) {
    return hf_of_columns([&](int c) { return -a[c]; });
  }
  friend hf_inline hf_matrix operator*(const hf_matrix& a, T by) {
    return hf_of_columns([&](int c) { return a[c] * by; });
  }
  friend hf_inline hf_matrix operator*(T by, const hf_matrix& a) { return a * by; }
  friend hf_inline hf_vec<T, R> operator*(const hf_matrix& a, const hf_vec<T, C>& v) {
    hf_vec<T, R> sum = a[0] * v[0];
    for (int c = 1; c < C; ++c) sum += a[c] * v[c];
    return sum;
  }
  friend hf_inline hf_vec<T, C> operator*(const hf_vec<T, R>& v, const hf_matrix& a) {
    hf_vec<T, C> made;
    for (int c = 0; c < C; ++c) {
      T sum = v[0] * a[c][0];
      for (int r = 1; r < R; ++r) sum = T(sum + v[r] * a[c][r]);
      made[c] = sum;
    }
    return made;
  }
  template <int K>
  friend hf_inline hf_matrix<T, K, R> operator*(const hf_matrix& a, const hf_matrix<T, K, C>& b) {
    hf_matrix<T, K, R> made;
    for (int k = 0; k < K; ++k) made[k] = a * b[k];
    return made;
  }
  hf_inline hf_matrix& operator+=(const hf_matrix& a) { return *this = *this + a; }
  hf_inline hf_matrix& operator-=(const hf_matrix& a) { return *this = *this - a; }
  hf_inline hf_matrix& operator*=(T by) { return *this = *this * by; }
};

#define hf_matrix_names(name, T)                                                         \
  typedef hf_matrix<T, 2, 2> name##2x2; typedef hf_matrix<T, 2, 3> name##2x3;            \
  typedef hf_matrix<T, 2, 4> name##2x4; typedef hf_matrix<T, 3, 2> name##3x2;            \
  typedef hf_matrix<T, 3, 3> name##3x3; typedef hf_matrix<T, 3, 4> name##3x4;            \
  typedef hf_matrix<T, 4, 2> name##4x2; typedef hf_matrix<T, 4, 3> name##4x3;            \
  typedef hf_matrix<T, 4, 4> name##4x4;

namespace metal {

template <class T, int C, int R>
using matrix = hf_matrix<T, C, R>;
hf_matrix_names(float, float) hf_matrix_names(half, half)

template <class T, int C, int R>
hf_inline hf_matrix<T, R, C> transpose(const hf_matrix<T, C, R>& a) {
  hf_matrix<T, R, C> made;
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) made[r][c] = a[c][r];
  }
  return made;
}
template <class T>
hf_inline T determinant(const hf_matrix<T, 2, 2>& a) {
  return T(a[0][0] * a[1][1] - a[1][0] * a[0][1]);
}
template <class T>
hf_inline T determinant(const hf_matrix<T, 3, 3>& a) {
  return T(a[0][0] * (a[1][1] * a[2][2] - a[2][1] * a[1][2]) -
           a[1][0] * (a[0][1] * a[2][2] - a[2][1] * a[0][2]) +
           a[2][0] * (a[0][1] * a[1][2] - a[1][1] * a[0][2]));
}
template <class T>
hf_inline T determinant(const hf_matrix<T, 4, 4>& a) {
  T sum = T(0);
  for (int c = 0; c < 4; ++c) {
    hf_matrix<T, 3, 3> minor;
    for (int k = 0; k < 3; ++k) {
      for (int r = 0; r < 3; ++r) minor[k][r] = a[k < c ? k : k + 1][r + 1];
    }
    const T part = T(a[c][0] * metal::determinant(minor));
    sum = c % 2 == 0 ? T(sum + part) : T(sum - part);
  }
  return sum;
}

}  // namespace metal
