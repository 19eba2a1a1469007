// format/kv_window.h: the window that fits the device's KV budget. Specification: "Header fields
// from the config".
#ifndef NEEDLE_FORMAT_KV_WINDOW_H_
#define NEEDLE_FORMAT_KV_WINDOW_H_

#include <cstdint>

#include "format/geometry.h"

namespace needle::format {

// The window by the 11.5 MiB budget alone; geometry.kv_window is not read.
uint32_t BudgetKvWindow(const Geometry& geometry);

// The header's kv_window: min(budget, configured) when configured > 0, else the budget.
uint32_t EffectiveKvWindow(const Geometry& geometry, uint32_t configured);

// The header's kv_window of a slice: `full` is the archive's geometry, `sliced` that of the new
// depth. A value that equals the full depth's budget becomes the new depth's budget; any other
// (also 0, which leaves the window to the device) is the config's own and is kept, capped by the
// new budget.
uint32_t SlicedKvWindow(const Geometry& full, const Geometry& sliced);

}  // namespace needle::format

#endif  // NEEDLE_FORMAT_KV_WINDOW_H_
