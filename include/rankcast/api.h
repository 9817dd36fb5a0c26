// Marks what librankcast.so exports; everything else is hidden.
#pragma once

#define RANKCAST_API __attribute__((visibility("default")))
