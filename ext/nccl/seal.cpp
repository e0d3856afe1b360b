#include "seal.h"

#include <cstring>

#include "errors.h"

namespace pruned {
namespace {

unsigned char* plain(std::byte* data) { return reinterpret_cast<unsigned char*>(data); }

const unsigned char* plain(const Key& key) { return reinterpret_cast<const unsigned char*>(key.data()); }

}  // namespace

std::array<unsigned char, 32> Seal::nonce() {
  std::array<unsigned char, 32> nonce{};
  std::memcpy(nonce.data(), &number_, sizeof number_);
  ++number_;
  return nonce;
}

std::size_t Seal::close(std::byte* data, std::size_t bytes) {
  unsigned long long sealed = 0;
  cipher_.encrypt(plain(data), &sealed, plain(data), bytes, nullptr, 0, nullptr, nonce().data(), plain(key_));
  return static_cast<std::size_t>(sealed);
}

std::size_t Seal::open(std::byte* data, std::size_t bytes) {
  unsigned long long opened = 0;
  const int failed =
      cipher_.decrypt(plain(data), &opened, nullptr, plain(data), bytes, nullptr, 0, nonce().data(), plain(key_));
  if (failed != 0) {
    throw Mismatch("what came from the other host was not sealed by it");
  }
  return static_cast<std::size_t>(opened);
}

}  // namespace pruned
