// A callable, borrowed for the length of a call: std::function without ownership or allocation.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace rankcast::base {

template <class Signature>
class FunctionRef;

/// Two words. The callable must outlive every call; pass it by value as a parameter, keep none.
template <class R, class... Args>
class FunctionRef<R(Args...)> {
 public:
  template <class F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, FunctionRef> &&
             std::is_invocable_r_v<R, F&, Args...>)
  FunctionRef(F&& callable) noexcept
      : callable_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  R operator()(Args... args) const { return call_(callable_, std::forward<Args>(args)...); }

 private:
  void* callable_;  // borrowed from the caller
  R (*call_)(void*, Args...);
};

}  // namespace rankcast::base
