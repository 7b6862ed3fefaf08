#pragma once

// Which mutex guards what, in a form that clang checks (./dev lint); other compilers see nothing.
//
//   Mutex mutex_;
//   std::vector<Job> jobs_ HOLDFAST_GUARDED_BY(mutex_);   // touched only while mutex_ is held
//   void drop_locked() HOLDFAST_REQUIRES(mutex_);         // called only while mutex_ is held
#if defined(__clang__)
#define HOLDFAST_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define HOLDFAST_THREAD_ATTRIBUTE(x)
#endif

#define HOLDFAST_CAPABILITY(name) HOLDFAST_THREAD_ATTRIBUTE(capability(name))
#define HOLDFAST_SCOPED_CAPABILITY HOLDFAST_THREAD_ATTRIBUTE(scoped_lockable)
#define HOLDFAST_GUARDED_BY(mutex) HOLDFAST_THREAD_ATTRIBUTE(guarded_by(mutex))
#define HOLDFAST_REQUIRES(...) HOLDFAST_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define HOLDFAST_ACQUIRE(...) HOLDFAST_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define HOLDFAST_RELEASE(...) HOLDFAST_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define HOLDFAST_ASSERT_HELD(...) HOLDFAST_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))
#define HOLDFAST_NO_LOCK_CHECK HOLDFAST_THREAD_ATTRIBUTE(no_thread_safety_analysis)
