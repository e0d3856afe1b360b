// A cipher for the tests of records, which need one of libsodium's form and not its strength.

#pragma once

#include "../seal.h"

namespace pruned::testing {

/// Each byte is changed by the key and the nonce; the tag is both, and the sum of what was sealed.
Cipher toy_cipher();

}  // namespace pruned::testing
