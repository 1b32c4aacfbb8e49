// Point-to-point messages, the same on every transport.
#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "comm/transport.h"
#include "support/support.h"

using namespace chimera;
using namespace chimera::test;

namespace {

std::span<const std::byte> bytes_of(const std::vector<int>& v) {
  return std::as_bytes(std::span(v));
}
std::span<std::byte> writable(std::vector<int>& v) { return std::as_writable_bytes(std::span(v)); }

// Content that tells a message from all others.
std::byte content(int message, Index position) {
  return static_cast<std::byte>((message * 131 + position * 7 + position / 251) & 0xff);
}

template <class Function>
std::string error_of(const Function& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("messages arrive in the order sent, per pair and channel") {
  run_transport(2, [](Communicator& comm) {
    const int peer = 1 - comm.rank();
    for (int i = 0; i < 200; ++i) {
      for (const int channel : {0, 7, Communicator::kChannels - 1}) {
        std::vector<int> sent{i, channel, comm.rank()}, received(3);
        const auto send = comm.send_start(peer, channel, bytes_of(sent));
        comm.recv(peer, channel, writable(received), "a message");
        comm.wait(send, "a message");
        ENSURE((received == std::vector{i, channel, peer}), "message ", i, " on channel ", channel,
               " was ", received[0], " ", received[1], " ", received[2]);
      }
    }
  });
}

TEST_CASE("channels are independent: the receiver takes them in another order") {
  run_transport(2, [](Communicator& comm) {
    constexpr int kCount = 16;
    std::vector<std::vector<int>> payload(kCount, std::vector<int>(100));
    std::vector<Communicator::Request> requests(kCount);
    for (int i = 0; i < kCount; ++i) {
      const int channel = comm.rank() == 0 ? i : kCount - 1 - i;
      auto& data = payload[static_cast<std::size_t>(channel)];
      if (comm.rank() == 0) std::ranges::fill(data, channel);
      requests[static_cast<std::size_t>(i)] = comm.rank() == 0
                                                  ? comm.send_start(1, channel, bytes_of(data))
                                                  : comm.recv_start(0, channel, writable(data));
    }
    for (const auto request : requests) comm.wait(request, "a channel");
    for (int channel = 0; channel < kCount; ++channel)
      for (const int value : payload[static_cast<std::size_t>(channel)])
        ENSURE(value == channel, "channel ", channel, " brought ", value);
  });
}

TEST_CASE("many requests are outstanding at once and end in any order") {
  run_transport(3, [](Communicator& comm) {
    constexpr std::size_t kCount = 500;  // more than the tables begin with
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    std::vector<std::vector<int>> sent(kCount), received(kCount);
    std::vector<Communicator::Request> requests;
    for (std::size_t i = 0; i < kCount; ++i) {
      sent[i].assign(1 + i % 17, static_cast<int>(i) + 1000 * comm.rank());
      received[i].resize(1 + i % 17);
      requests.push_back(comm.send_start(next, 3, bytes_of(sent[i])));
      requests.push_back(comm.recv_start(previous, 3, writable(received[i])));
    }
    std::ranges::shuffle(requests, std::mt19937(static_cast<unsigned>(comm.rank())));
    for (const auto request : requests) comm.wait(request, "one of many");
    for (std::size_t i = 0; i < kCount; ++i)
      for (const int value : received[i])
        ENSURE(value == static_cast<int>(i) + 1000 * previous, "message ", i, " brought ", value);
  });
}

TEST_CASE("a worker sends to itself as to others") {
  run_transport(1, [](Communicator& comm) {
    ENSURE(comm.size() == 1 && comm.rank() == 0, "rank ", comm.rank(), " of ", comm.size());
    std::vector<int> a{1, 2, 3}, b{4, 5, 6}, x(3), y(3);
    const auto first = comm.send_start(0, 2, bytes_of(a));
    const auto second = comm.send_start(0, 2, bytes_of(b));
    comm.recv(0, 2, writable(x), "the first");
    comm.recv(0, 2, writable(y), "the second");
    comm.wait(second, "the second");
    comm.wait(first, "the first");
    ENSURE(x == a && y == b, "messages to oneself changed");
  });
}

// Lengths on both sides of the chunk's, exact multiples among them, and none at all.
TEST_CASE("messages of any length arrive whole, followed by the next one") {
  run_transport(2, [](Communicator& comm) {
    const std::vector<Index> lengths{
        0, 1, kChunkBytes - 1, kChunkBytes, kChunkBytes + 1, 3 * kChunkBytes, 0, 1'000'003};
    for (int i = 0; i < static_cast<int>(lengths.size()); ++i) {
      const Index length = lengths[static_cast<std::size_t>(i)];
      std::vector<std::byte> data(static_cast<std::size_t>(length));
      if (comm.rank() == 0) {
        for (Index k = 0; k < length; ++k) data[static_cast<std::size_t>(k)] = content(i, k);
        comm.send(1, 1, data, "a message");
      } else {
        comm.recv(0, 1, data, "a message");
        for (Index k = 0; k < length; ++k)
          ENSURE(data[static_cast<std::size_t>(k)] == content(i, k), "byte ", k, " of ", length,
                 " is wrong");
      }
    }
  });
}

TEST_CASE("request 0 is nothing to wait for, and a request ends once") {
  run_transport(2, [](Communicator& comm) {
    comm.wait(0, "nothing");
    std::vector<int> data(1);
    const auto request = comm.rank() == 0 ? comm.send_start(1, 0, bytes_of(data))
                                          : comm.recv_start(0, 0, writable(data));
    comm.wait(request, "a message");
    const std::string error = error_of([&] { comm.wait(request, "a message"); });
    ENSURE(error.find("has ended") != std::string::npos, "a second wait gave: ", error);
  });
}

TEST_CASE("a peer or channel that does not exist is refused by name") {
  run_transport(2, [](Communicator& comm) {
    const auto refuses = [&](int peer, int channel, const std::string& expected) {
      const std::string error = error_of([&] { comm.send_start(peer, channel, {}); });
      ENSURE(error.find(expected) != std::string::npos, "expected ", expected, ", got ", error);
    };
    refuses(4, 0, "there is no worker 4");
    refuses(-1, 0, "there is no worker -1");
    refuses(1, -1, "there is no channel -1");
    refuses(1, 1000, "there is no channel 1000");
  });
}

// A list of messages that all workers draw alike; each posts its own in the list's order and ends
// some at random. 8 rounds of 250 messages between 4 workers, some longer than a chunk.
TEST_CASE("random patterns of messages arrive unchanged") {
  struct Message {
    int source, destination, channel;
    Index length;
  };
  run_transport(4, [](Communicator& comm) {
    std::mt19937 draw(11), own(static_cast<unsigned>(comm.rank()) + 100);
    for (int round = 0; round < 8; ++round) {
      std::vector<Message> messages(250);
      for (Message& m : messages) {
        m = {static_cast<int>(draw() % 4), static_cast<int>(draw() % 4),
             static_cast<int>(draw() % 3), static_cast<Index>(draw() % 2000)};
        if (draw() % 20 == 0) m.length = static_cast<Index>(draw() % (5 * kChunkBytes));
      }
      std::vector<std::vector<std::byte>> sent(messages.size()), received(messages.size());
      std::vector<Communicator::Request> requests;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        const Message& m = messages[i];
        const auto length = static_cast<std::size_t>(m.length);
        if (m.source == comm.rank()) {
          sent[i].resize(length);
          for (std::size_t k = 0; k < length; ++k)
            sent[i][k] = content(static_cast<int>(i), static_cast<Index>(k));
          requests.push_back(comm.send_start(m.destination, m.channel, sent[i]));
        }
        if (m.destination == comm.rank()) {
          received[i].resize(length);
          requests.push_back(comm.recv_start(m.source, m.channel, received[i]));
        }
      }
      std::ranges::shuffle(requests, own);
      for (const auto request : requests) comm.wait(request, "a random message");
      for (std::size_t i = 0; i < messages.size(); ++i)
        for (std::size_t k = 0; k < received[i].size(); ++k)
          ENSURE(received[i][k] == content(static_cast<int>(i), static_cast<Index>(k)), "message ",
                 i, " of round ", round, " differs at byte ", k);
    }
  });
}
