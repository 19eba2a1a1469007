#include "quant/bit_map.h"
