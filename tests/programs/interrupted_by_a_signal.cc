// A wait for work that does not finish ends by SIGINT, loses nothing, and can be made again.
#include <holdfast/runtime.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <thread>

namespace hf = holdfast;

int main() {
  struct sigaction action {};
  action.sa_handler = [](int) { hf::runtime::interrupt_waits(); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);

  const auto context = hf::runtime::Context::create(hf::hal::open_device("cpu").or_raise());
  const auto stream = context->new_stream();
  const auto gate = context->new_host_timeline("gate");
  const auto memory = stream->allocate(hf::Bytes{64}, "memory");
  stream->wait_for({gate, {1}});
  stream->fill(hf::hal::Binding::of(memory, hf::hal::Access::write), std::byte{7});

  std::atomic<bool> interrupted{false};
  std::thread typist([&, waiter = pthread_self()] {
    // A signal that comes before the wait began does not end it; so, until it has.
    while (!interrupted) {
      pthread_kill(waiter, SIGINT);
      std::this_thread::yield();
    }
  });
  try {
    stream->synchronize();
  } catch (const hf::InterruptedError& error) {
    std::puts(error.what());
    interrupted = true;
  }
  const bool was_interrupted = interrupted.exchange(true);
  typist.join();
  gate->signal({1});
  stream->synchronize();
  std::byte value{};
  stream->readback(memory, {}, {&value, 1});
  const bool right = was_interrupted && value == std::byte{7};
  std::puts(right ? "interrupted once, then done" : "wrong");
  return right ? 0 : 1;
}
