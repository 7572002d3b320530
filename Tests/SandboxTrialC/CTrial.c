#include "CTrial.h"
