#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__)
#define PART static __attribute__((unused))
#else
#define PART static
#endif

