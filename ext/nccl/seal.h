// Records: bytes on their way to another host, which nobody in between can read, change, repeat or leave out.
//
// A record is the size of what follows, in 4 bytes, and its contents as an AEAD of libsodium seals them. Its nonce is
// its number, so each connection has a key of its own, and carries records in one direction only. Which function that
// is the caller says (prism/gpu/pruned/seal.py, which speaks the same): the engine itself is linked with nothing.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace pruned {

/// crypto_aead_aegis256_encrypt and _decrypt of libsodium, or what has their form.
struct Cipher {
  using Encrypt = int(unsigned char* c, unsigned long long* clen, const unsigned char* m, unsigned long long mlen,
                      const unsigned char* ad, unsigned long long adlen, const unsigned char* nsec,
                      const unsigned char* npub, const unsigned char* k);
  using Decrypt = int(unsigned char* m, unsigned long long* mlen, unsigned char* nsec, const unsigned char* c,
                      unsigned long long clen, const unsigned char* ad, unsigned long long adlen,
                      const unsigned char* npub, const unsigned char* k);
  Encrypt* encrypt;
  Decrypt* decrypt;
};

constexpr std::size_t kKeyBytes = 32;
constexpr std::size_t kTagBytes = 32;  // what sealing adds

using Key = std::array<std::byte, kKeyBytes>;

/// One side of a connection's records: seals them, or opens them, in order.
class Seal {
 public:
  Seal(const Cipher& cipher, const Key& key) : cipher_(cipher), key_(key) {}

  /// In place; there is room for the tag behind. The size with it.
  std::size_t close(std::byte* data, std::size_t bytes);
  /// In place. The size without the tag. Throws Mismatch if it is not the next record of who has the key.
  std::size_t open(std::byte* data, std::size_t bytes);

 private:
  std::array<unsigned char, 32> nonce();

  Cipher cipher_;
  Key key_;
  std::uint64_t number_ = 0;
};

}  // namespace pruned
