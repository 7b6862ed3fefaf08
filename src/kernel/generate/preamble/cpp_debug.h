// assert and printf.

#define assert(...)  \
  ((__VA_ARGS__) ? (void)0 \
                 : hf_this_host->assertion(hf_this_host, __FILE__, __LINE__, #__VA_ARGS__))

extern "C" int printf(const char*, ...);
