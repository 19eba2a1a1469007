// converter/pickle_globals.h: the constructors that a pickle of a checkpoint may call.
#ifndef NEEDLE_CONVERTER_PICKLE_GLOBALS_H_
#define NEEDLE_CONVERTER_PICKLE_GLOBALS_H_

#include "absl/status/statusor.h"
#include "converter/pickle_value.h"

namespace needle::converter {

// What calling the global `callable` with the tuple `arguments` makes. Unimplemented naming the
// global when it is none of those known; DataLoss when the arguments are not those it takes.
absl::StatusOr<PickleRef> CallGlobal(PickleHeap& heap, PickleRef callable, PickleRef arguments);

// An instance of the class `callable`, without calling it: only objects whose state is a dict.
absl::StatusOr<PickleRef> NewObject(PickleHeap& heap, PickleRef callable, PickleRef arguments);

// Gives an array, a dtype or an object its state.
absl::Status SetState(PickleHeap& heap, PickleRef target, PickleRef state);

}  // namespace needle::converter

#endif  // NEEDLE_CONVERTER_PICKLE_GLOBALS_H_
