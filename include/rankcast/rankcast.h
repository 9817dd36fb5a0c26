// Everything of Rankcast's public C++ API.
#pragma once

#include "rankcast/dtype.h"
#include "rankcast/error.h"
#include "rankcast/host_view.h"
#include "rankcast/installation.h"
#include "rankcast/kernel_abi.h"
#include "rankcast/mesh.h"
#include "rankcast/program.h"
#include "rankcast/resident_view.h"
#include "rankcast/run.h"
#include "rankcast/safetensors.h"
#include "rankcast/shape.h"
#include "rankcast/tensor.h"
#include "rankcast/version.h"
