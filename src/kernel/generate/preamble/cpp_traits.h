// What kernel text asks of types while it is compiled.

namespace metal {

template <class T, T V>
struct integral_constant {
  static constexpr T value = V;
  using value_type = T;
  using type = integral_constant;
  constexpr operator T() const { return V; }
  constexpr T operator()() const { return V; }
};
template <bool V>
using bool_constant = integral_constant<bool, V>;
using true_type = bool_constant<true>;
using false_type = bool_constant<false>;

template <bool C, class A, class B>
using conditional = hf_if<C, A, B>;
template <bool C, class A, class B>
using conditional_t = typename hf_if<C, A, B>::type;
template <bool C, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool C, class T = void>
using enable_if_t = typename enable_if<C, T>::type;
template <class...>
using void_t = void;

#define hf_type_trait(name, own, made_of)     \
  template <class T>                          \
  struct name {                               \
    using type = T;                           \
  };                                          \
  template <class T>                          \
  struct name<own> {                          \
    using type = made_of;                     \
  };                                          \
  template <class T>                          \
  using name##_t = typename name<T>::type;
hf_type_trait(remove_const, const T, T)
hf_type_trait(remove_volatile, volatile T, T)
hf_type_trait(remove_pointer, T*, T)
hf_type_trait(remove_extent, T[], T)
#undef hf_type_trait
template <class T, unsigned long N>
struct remove_extent<T[N]> {
  using type = T;
};
template <class T>
struct remove_cv {
  using type = remove_const_t<remove_volatile_t<T>>;
};
template <class T>
using remove_cv_t = typename remove_cv<T>::type;
template <class T>
struct remove_reference {
  using type = T;
};
template <class T>
struct remove_reference<T&> {
  using type = T;
};
template <class T>
struct remove_reference<T&&> {
  using type = T;
};
template <class T>
using remove_reference_t = typename remove_reference<T>::type;
template <class T>
struct remove_cvref {
  using type = remove_cv_t<remove_reference_t<T>>;
};
template <class T>
using remove_cvref_t = typename remove_cvref<T>::type;
template <class T>
struct decay {
  using type = remove_cvref_t<T>;
};
template <class T>
using decay_t = typename decay<T>::type;
template <class T>
struct add_const {
  using type = const T;
};
template <class T>
using add_const_t = const T;

}  // namespace metal

template <class T>
inline constexpr bool hf_is_floating_point = false;
template <>
inline constexpr bool hf_is_floating_point<float> = true;
template <>
inline constexpr bool hf_is_floating_point<double> = true;
template <>
inline constexpr bool hf_is_floating_point<_Float16> = true;
#ifdef hf_has_bfloat
template <>
inline constexpr bool hf_is_floating_point<hf_bfloat> = true;
#endif
template <class T>
inline constexpr bool hf_is_pointer = false;
template <class T>
inline constexpr bool hf_is_pointer<T*> = true;
// Numbers, bool among them, that are no floats: no class is one.
template <class T>
inline constexpr bool hf_is_integral =
    !hf_is_floating_point<T> && !hf_is_pointer<T> &&
    hf_same<T, metal::remove_reference_t<T>> && !__is_class(T) && !__is_union(T) &&
    !__is_enum(T) && requires(T v) { v % v; };

namespace metal {

#define hf_truth_of(name, of)                                 \
  template <class T>                                          \
  struct name : bool_constant<of<remove_cv_t<T>>> {};         \
  template <class T>                                          \
  inline constexpr bool name##_v = name<T>::value;
hf_truth_of(is_floating_point, hf_is_floating_point)
hf_truth_of(is_integral, hf_is_integral)
hf_truth_of(is_pointer, hf_is_pointer)
#undef hf_truth_of
#define hf_truth_of(name, ...)                                \
  template <class T>                                          \
  struct name : bool_constant<(__VA_ARGS__)> {};              \
  template <class T>                                          \
  inline constexpr bool name##_v = name<T>::value;
hf_truth_of(is_arithmetic, is_integral_v<T> || is_floating_point_v<T>)
hf_truth_of(is_scalar, is_arithmetic_v<T> || is_pointer_v<T> || __is_enum(T))
hf_truth_of(is_class, __is_class(T))
hf_truth_of(is_enum, __is_enum(T))
hf_truth_of(is_empty, __is_empty(T))
hf_truth_of(is_const, !hf_same<T, remove_const_t<T>>)
hf_truth_of(is_reference, !hf_same<T, remove_reference_t<T>>)
hf_truth_of(is_void, hf_same<remove_cv_t<T>, void>)
#undef hf_truth_of
template <class T>
struct is_signed : bool_constant<is_floating_point_v<T>> {};
template <class T>
  requires(is_integral_v<T>)
struct is_signed<T> : bool_constant<(T(-1) < T(0))> {};
template <class T>
inline constexpr bool is_signed_v = is_signed<T>::value;
template <class T>
struct is_unsigned : bool_constant<is_integral_v<T> && !is_signed_v<T>> {};
template <class T>
inline constexpr bool is_unsigned_v = is_unsigned<T>::value;
template <class A, class B>
struct is_same : bool_constant<hf_same<A, B>> {};
template <class A, class B>
inline constexpr bool is_same_v = hf_same<A, B>;
template <class From, class To>
struct is_convertible : bool_constant<requires(From from, void (*take)(To)) { take(from); }> {};
template <class From, class To>
inline constexpr bool is_convertible_v = is_convertible<From, To>::value;

template <class A, class B>
hf_inline constexpr A ceildiv(A a, B b) {
  return (a + static_cast<A>(b) - 1) / static_cast<A>(b);
}

}  // namespace metal
