// A mutex that Clang's thread-safety analysis understands. Guarded members say
// RC_GUARDED_BY(mutex_); functions that need the lock end in `_locked` and say RC_REQUIRES(mutex_).
#pragma once

#include <mutex>

#if defined(__clang__)
#define RC_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define RC_THREAD_ANNOTATION(x)
#endif

#define RC_CAPABILITY(name) RC_THREAD_ANNOTATION(capability(name))
#define RC_SCOPED_CAPABILITY RC_THREAD_ANNOTATION(scoped_lockable)
#define RC_GUARDED_BY(mutex) RC_THREAD_ANNOTATION(guarded_by(mutex))
#define RC_PT_GUARDED_BY(mutex) RC_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define RC_REQUIRES(...) RC_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define RC_EXCLUDES(...) RC_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define RC_ACQUIRE(...) RC_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define RC_RELEASE(...) RC_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define RC_TRY_ACQUIRE(...) RC_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define RC_ASSERT_CAPABILITY(x) RC_THREAD_ANNOTATION(assert_capability(x))
#define RC_RETURN_CAPABILITY(x) RC_THREAD_ANNOTATION(lock_returned(x))
#define RC_NO_THREAD_SAFETY_ANALYSIS RC_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace rankcast::base {

/// A std::mutex with annotations; same cost, same rules.
class RC_CAPABILITY("mutex") Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void lock() RC_ACQUIRE() { mutex_.lock(); }
  void unlock() RC_RELEASE() { mutex_.unlock(); }
  bool try_lock() RC_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

  /// Tells the analysis that the caller holds it, where that cannot be seen (a lambda); checks
  /// nothing.
  void assert_held() const RC_ASSERT_CAPABILITY(this) {}

 private:
  std::mutex mutex_;
};

/// Holds a Mutex from its construction to its end; unlock() and lock() in between for what must run
/// outside.
class RC_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) RC_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() RC_RELEASE() {
    if (held_) mutex_.unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void unlock() RC_RELEASE() {
    mutex_.unlock();
    held_ = false;
  }
  void lock() RC_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;  // borrowed from the scope around, which outlives the lock
  bool held_ = true;
};

}  // namespace rankcast::base
