#include "toy_cipher.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace pruned::testing {
namespace {

using Tag = std::array<unsigned char, kTagBytes>;

Tag tag_of(const unsigned char* data, unsigned long long bytes, const unsigned char* nonce, const unsigned char* key) {
  Tag tag;
  std::transform(key, key + kTagBytes, nonce, tag.begin(), [](unsigned char a, unsigned char b) { return a ^ b; });
  tag.back() = std::accumulate(data, data + bytes, tag.back());
  return tag;
}

int encrypt(unsigned char* c, unsigned long long* clen, const unsigned char* m, unsigned long long mlen,
            const unsigned char*, unsigned long long, const unsigned char*, const unsigned char* nonce,
            const unsigned char* key) {
  const Tag tag = tag_of(m, mlen, nonce, key);
  std::transform(m, m + mlen, c, [&](unsigned char byte) { return byte ^ key[0] ^ nonce[0]; });
  std::ranges::copy(tag, c + mlen);
  *clen = mlen + kTagBytes;
  return 0;
}

int decrypt(unsigned char* m, unsigned long long* mlen, unsigned char*, const unsigned char* c,
            unsigned long long clen, const unsigned char*, unsigned long long, const unsigned char* nonce,
            const unsigned char* key) {
  *mlen = clen - kTagBytes;
  std::transform(c, c + *mlen, m, [&](unsigned char byte) { return byte ^ key[0] ^ nonce[0]; });
  return std::ranges::equal(tag_of(m, *mlen, nonce, key), std::span(c + *mlen, kTagBytes)) ? 0 : -1;
}

}  // namespace

Cipher toy_cipher() { return {encrypt, decrypt}; }

}  // namespace pruned::testing
