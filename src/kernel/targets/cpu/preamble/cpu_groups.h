// The threadgroup with this number.
struct hf_group : hf_group_place {
  const hf_call* call;
  hf_inline hf_group(const hf_launch& launch, unsigned long number)
      : hf_group(launch, number, hf_groups(launch, 0), hf_groups(launch, 1)) {}

 private:
  hf_inline hf_group(const hf_launch& launch, unsigned long number, unsigned long wide,
                     unsigned long high)
      : hf_group_place(launch, static_cast<unsigned>(number % wide),
                       static_cast<unsigned>(number / wide % high),
                       static_cast<unsigned>(number / wide / high)) {}
};
