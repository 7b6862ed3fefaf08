// The host of the call that runs on this thread; the entry point sets it.
static thread_local hf_host* hf_this_host;
typedef const char* hf_text;
