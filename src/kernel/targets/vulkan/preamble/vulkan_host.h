// What stops a thread: the first one of the dispatch says why in its report (check_report.h), and
// each returns. Threads that meet others still come to every meeting: the translator leads them.

hf_pure unsigned* hf_spirv_report();
hf_pure unsigned hf_spirv_name(const char* text);
hf_meet unsigned hf_spirv_atomic_exchange32(unsigned* at, unsigned value);
extern "C" __attribute__((convergent, nothrow, noreturn)) void hf_spirv_stop();

// A text of the module's, by a number that the host knows it by.
struct hf_text {
  unsigned name = 0;
  constexpr hf_text() {}
  hf_inline hf_text(const char* text) : name(hf_spirv_name(text)) {}
};

struct hf_host {
  [[noreturn]] hf_inline static void stop(unsigned kind, hf_text file, unsigned line, hf_text what,
                                          long index, unsigned long size) {
    unsigned* const report = hf_spirv_report();
    if (hf_spirv_atomic_exchange32(report, 1) == 0) {
      report[1] = kind;
      report[2] = line;
      report[3] = file.name;
      report[4] = what.name;
      *reinterpret_cast<long*>(report + 6) = index;
      *reinterpret_cast<unsigned long*>(report + 8) = size;
    }
    hf_spirv_stop();
  }
  [[noreturn]] hf_inline static void out_of_bounds(hf_host*, hf_text file, unsigned line,
                                                   hf_text buffer, long index,
                                                   unsigned long size) {
    stop(0, file, line, buffer, index, size);
  }
  [[noreturn]] hf_inline static void assertion(hf_host*, hf_text file, unsigned line,
                                               hf_text expression) {
    stop(1, file, line, expression, 0, 0);
  }
};
constexpr hf_host* hf_this_host = nullptr;
