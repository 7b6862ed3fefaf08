#pragma once

// All of Holdfast that this version has: the runtime for framework authors.
#include <holdfast/runtime.h>
