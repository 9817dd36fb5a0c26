// Ends a program on a processor below x86-64-v3 with a sentence instead of an illegal instruction.
// Compiled for plain x86-64 and free of anything that runs code of other files: no streams, no
// inline functions of the library. Priority 101 is the first that a constructor may have, so it
// runs before every other constructor of the same library or program.
#if defined(__x86_64__)

#include <cpuid.h>
#include <unistd.h>

namespace {

constexpr int kExitEnvironment = 3;

constexpr char kMessage[] =
    "rankcast: this processor is too old: it needs the x86-64-v3 instructions (AVX2, FMA, BMI1, "
    "BMI2, F16C, LZCNT, MOVBE; x86 processors made since about 2015 have them). Use another "
    "machine, or build Rankcast from source with another -march.\n";

bool has_all(unsigned found, unsigned wanted) { return (found & wanted) == wanted; }

bool os_saves_avx_registers() {
  unsigned low = 0;
  unsigned high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return has_all(low, 0x6);
}

bool has_x86_64_v3() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  if (!has_all(c, bit_FMA | bit_MOVBE | bit_OSXSAVE | bit_AVX | bit_F16C)) return false;
  if (!os_saves_avx_registers()) return false;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if (!has_all(b, bit_BMI | bit_AVX2 | bit_BMI2)) return false;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d) == 0) return false;
  return has_all(c, bit_LZCNT);
}

__attribute__((constructor(101))) void check_processor() {
  if (has_x86_64_v3()) return;
  // The exit status tells all that can be told when even the message cannot be written.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
  _exit(kExitEnvironment);
}

}  // namespace

#endif
