// crypt(3) as libxcrypt has it: DES, MD5, SHA-2, bcrypt and yescrypt hashes of passwords.
#pragma once
#include <crypt.h>
