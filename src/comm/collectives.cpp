#include "chimera/comm/collectives.h"

#include <algorithm>
#include <array>

namespace chimera {

namespace {

constexpr std::size_t kSumPiece = 512;  // values on the stack

// Up the tree: on rank 0 the sum of all ranks, on others of those below.
void sum_to_root(Communicator& comm, int channel, std::span<double> values, std::string_view what) {
  std::array<double, kSumPiece> theirs;
  const std::span<double> received(theirs.data(), values.size());
  const Index rank = comm.rank(), size = comm.size();
  Index reach = 1;
  for (; reach < size && rank % (2 * reach) == 0; reach *= 2) {
    if (rank + reach >= size) continue;
    comm.recv(static_cast<int>(rank + reach), channel, std::as_writable_bytes(received), what);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += received[i];
  }
  if (rank > 0) comm.send(static_cast<int>(rank - reach), channel, std::as_bytes(values), what);
}

}  // namespace

void sum_over_ranks(Communicator& comm, int channel, std::span<double> values,
                    std::string_view what) {
  for (std::size_t first = 0; first < values.size(); first += kSumPiece)
    sum_to_root(comm, channel, values.subspan(first, std::min(kSumPiece, values.size() - first)),
                what);
  broadcast(comm, channel, 0, std::as_writable_bytes(values), what);
}

// With ranks counted from the root: rank v > 0 receives from v minus its highest power of two, and
// sends to v + 2^k for every 2^k above that power.
void broadcast(Communicator& comm, int channel, int root, std::span<std::byte> bytes,
               std::string_view what) {
  const Index size = comm.size(), place = (comm.rank() - root + size) % size;
  ENSURE(root >= 0 && root < size, "broadcast from worker ", root, " of ", size);
  const auto rank_at = [&](Index at) { return static_cast<int>((at + root) % size); };
  Index reach = 1;
  while (reach <= place) reach *= 2;
  if (place > 0) comm.recv(rank_at(place - reach / 2), channel, bytes, what);

  std::array<Communicator::Request, 32> sends;
  std::size_t count = 0;
  for (; place + reach < size; reach *= 2)
    sends[count++] = comm.send_start(rank_at(place + reach), channel, bytes);
  for (std::size_t i = 0; i < count; ++i) comm.wait(sends[i], what);
}

void barrier(Communicator& comm, int channel, std::string_view what) {
  const Index size = comm.size(), rank = comm.rank();
  for (Index reach = 1; reach < size; reach *= 2) {
    const auto send = comm.send_start(static_cast<int>((rank + reach) % size), channel, {});
    comm.recv(static_cast<int>((rank - reach + size) % size), channel, {}, what);
    comm.wait(send, what);
  }
}

std::vector<std::string> gather_texts(Communicator& comm, int channel, int count,
                                      const std::string& mine, std::string_view what) {
  std::int64_t length = std::ssize(mine);
  if (comm.rank() != 0) {
    comm.send(0, channel, std::as_bytes(std::span(&length, 1)), what);
    comm.send(0, channel, std::as_bytes(std::span(mine)), what);
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int rank = 1; rank < count; ++rank) {
    comm.recv(rank, channel, std::as_writable_bytes(std::span(&length, 1)), what);
    std::string& text = texts.emplace_back(static_cast<std::size_t>(length), '\0');
    comm.recv(rank, channel, std::as_writable_bytes(std::span(text)), what);
  }
  return texts;
}

}  // namespace chimera
