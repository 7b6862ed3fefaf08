// Buffers that check every index.

// An index, and where the text has it.
struct hf_index {
  long value;
  unsigned line;
  hf_text file;
  hf_inline constexpr hf_index(long v, unsigned at_line = __builtin_LINE(),
                               hf_text in_file = __builtin_FILE())
      : value(v), line(at_line), file(in_file) {}
};

template <class T>
struct hf_checked {
  T* hf_base;
  unsigned long hf_size;
  hf_text hf_name;
  long hf_offset = 0;
  // Of the arithmetic that made it.
  unsigned hf_line = 0;
  hf_text hf_file = "";

  hf_inline T& hf_element_at(long at, unsigned line, hf_text file) const {
    if (static_cast<unsigned long>(at) >= hf_size) [[unlikely]] {
      hf_this_host->out_of_bounds(hf_this_host, file, line, hf_name, at, hf_size);
    }
    return hf_base[at];
  }
  hf_inline hf_checked hf_moved(long by, unsigned line, hf_text file) const {
    return {hf_base, hf_size, hf_name, hf_offset + by, line, file};
  }

  hf_inline T& operator[](hf_index i) const {
    return hf_element_at(hf_offset + i.value, i.line, i.file);
  }
  hf_inline T& operator*() const { return hf_element_at(hf_offset, hf_line, hf_file); }
  hf_inline T* operator->() const { return &**this; }
  // What follows a plain pointer is not checked. A template, so that it is no candidate for x[i].
  template <class U>
    requires requires(T* from) { static_cast<U*>(from); }
  hf_inline operator U*() const {
    if (static_cast<unsigned long>(hf_offset) > hf_size) [[unlikely]] {
      hf_this_host->out_of_bounds(hf_this_host, hf_file, hf_line, hf_name, hf_offset, hf_size);
    }
    return hf_base + hf_offset;
  }
  // For casts: (device float4*)x, reinterpret_cast is of pointers alone.
  template <class U>
    requires(!requires(T* from) { static_cast<U*>(from); })
  hf_inline explicit operator U*() const {
    return reinterpret_cast<U*>(static_cast<T*>(*this));
  }
  // For `c ? x : y`.
  template <class U>
    requires(hf_same<U, const T> && !hf_same<U, T>)
  hf_inline operator hf_checked<U>() const {
    return {hf_base, hf_size, hf_name, hf_offset, hf_line, hf_file};
  }
  explicit operator bool() const { return true; }

  friend hf_inline hf_checked operator+(const hf_checked& p, hf_index i) {
    return p.hf_moved(i.value, i.line, i.file);
  }
  friend hf_inline hf_checked operator+(hf_index i, const hf_checked& p) { return p + i; }
  friend hf_inline hf_checked operator-(const hf_checked& p, hf_index i) {
    return p.hf_moved(-i.value, i.line, i.file);
  }
  friend hf_inline long operator-(const hf_checked& a, const hf_checked& b) {
    return a.hf_offset - b.hf_offset;
  }
  hf_inline hf_checked& operator+=(hf_index i) { return *this = *this + i; }
  hf_inline hf_checked& operator-=(hf_index i) { return *this = *this - i; }
  hf_inline hf_checked& operator++() {
    ++hf_offset;
    return *this;
  }
  hf_inline hf_checked operator++(int) {
    hf_checked before = *this;
    ++hf_offset;
    return before;
  }
  hf_inline hf_checked& operator--() {
    --hf_offset;
    return *this;
  }
};

#define hf_compare_pointers(op)                                                          \
  template <class A, class B>                                                            \
    requires requires(A* a, B* b) { a op b; }                                            \
  hf_inline bool operator op(const hf_checked<A>& a, const hf_checked<B>& b) {           \
    return a.hf_base + a.hf_offset op b.hf_base + b.hf_offset;                           \
  }
hf_compare_pointers(==) hf_compare_pointers(!=) hf_compare_pointers(<)
hf_compare_pointers(<=) hf_compare_pointers(>) hf_compare_pointers(>=)
#undef hf_compare_pointers

// reinterpret_cast, which takes pointers alone, of a buffer too: what it gives is not checked.
template <class To, class T>
hf_inline To hf_reinterpret(const hf_checked<T>& from) {
  return reinterpret_cast<To>(static_cast<T*>(from));
}
template <class To, class From>
  requires(!requires(From from) { from.hf_base; })
hf_inline To hf_reinterpret(From&& from) {
  return reinterpret_cast<To>(from);
}
#define reinterpret_cast hf_reinterpret

#ifdef hf_has_atomics
template <class T>
hf_inline T* hf_cell(const hf_checked<hf_atomic<T>>& at) {
  return &(*at).hf_stored;
}
#endif
