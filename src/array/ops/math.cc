#include <string>

#include "holdfast/array/ops/elementwise.h"
#include "holdfast/array/ops/exp_text.h"
#include "holdfast/base/never_destroyed.h"
#include "holdfast/ops.h"

namespace holdfast {
namespace {

using array::ResultType;
using array::unary;

// Of the exponential that does not overflow.
constexpr const char* kSigmoid = R"(
C sigmoid_of(C a) {
  C e = exp_of(-metal::fabs(a));
  return a < C(0) ? e / (C(1) + e) : C(1) / (C(1) + e);
}
)";

}  // namespace

Array exp(const Array& a, const On& on) {
  return unary({"exp", "exp_of(a)", ResultType::floating, array::kExpOfText}, a, on);
}
Array expm1(const Array& a, const On& on) {
  return unary({"expm1", "metal::expm1(a)", ResultType::floating}, a, on);
}
Array log(const Array& a, const On& on) {
  return unary({"log", "metal::log(a)", ResultType::floating}, a, on);
}
Array log1p(const Array& a, const On& on) {
  return unary({"log1p", "metal::log1p(a)", ResultType::floating}, a, on);
}
Array log2(const Array& a, const On& on) {
  return unary({"log2", "metal::log2(a)", ResultType::floating}, a, on);
}
Array sqrt(const Array& a, const On& on) {
  return unary({"sqrt", "metal::sqrt(a)", ResultType::floating}, a, on);
}
Array rsqrt(const Array& a, const On& on) {
  return unary({"rsqrt", "metal::rsqrt(a)", ResultType::floating}, a, on);
}
Array sin(const Array& a, const On& on) {
  return unary({"sin", "metal::sin(a)", ResultType::floating}, a, on);
}
Array cos(const Array& a, const On& on) {
  return unary({"cos", "metal::cos(a)", ResultType::floating}, a, on);
}
Array tan(const Array& a, const On& on) {
  return unary({"tan", "metal::tan(a)", ResultType::floating}, a, on);
}
Array sinh(const Array& a, const On& on) {
  return unary({"sinh", "metal::sinh(a)", ResultType::floating}, a, on);
}
Array cosh(const Array& a, const On& on) {
  return unary({"cosh", "metal::cosh(a)", ResultType::floating}, a, on);
}
Array tanh(const Array& a, const On& on) {
  return unary({"tanh", "metal::tanh(a)", ResultType::floating}, a, on);
}
Array arcsin(const Array& a, const On& on) {
  return unary({"arcsin", "metal::asin(a)", ResultType::floating}, a, on);
}
Array arccos(const Array& a, const On& on) {
  return unary({"arccos", "metal::acos(a)", ResultType::floating}, a, on);
}
Array arctan(const Array& a, const On& on) {
  return unary({"arctan", "metal::atan(a)", ResultType::floating}, a, on);
}
Array arcsinh(const Array& a, const On& on) {
  return unary({"arcsinh", "metal::asinh(a)", ResultType::floating}, a, on);
}
Array arccosh(const Array& a, const On& on) {
  return unary({"arccosh", "metal::acosh(a)", ResultType::floating}, a, on);
}
Array arctanh(const Array& a, const On& on) {
  return unary({"arctanh", "metal::atanh(a)", ResultType::floating}, a, on);
}
Array arctan2(const Term& a, const Term& b, const On& on) {
  return array::binary({"arctan2", "metal::atan2(a, b)", ResultType::floating}, a, b, on);
}
Array erf(const Array& a, const On& on) {
  return unary({"erf", "metal::erf(a)", ResultType::floating}, a, on);
}
Array sigmoid(const Array& a, const On& on) {
  static const NeverDestroyed<std::string> helpers(std::string(array::kExpOfText) + kSigmoid);
  return unary({"sigmoid", "sigmoid_of(a)", ResultType::floating, helpers.get()}, a, on);
}
Array reciprocal(const Array& a, const On& on) {
  return unary({"reciprocal", "C(1) / a", ResultType::floating}, a, on);
}

Array floor(const Array& a, const On& on) {
  return is_floating(a.dtype()) ? unary({"floor", "metal::floor(a)"}, a, on) : a;
}
Array ceil(const Array& a, const On& on) {
  return is_floating(a.dtype()) ? unary({"ceil", "metal::ceil(a)"}, a, on) : a;
}
Array round(const Array& a, const On& on) {
  return is_floating(a.dtype()) ? unary({"round", "metal::rint(a)"}, a, on) : a;
}

}  // namespace holdfast
