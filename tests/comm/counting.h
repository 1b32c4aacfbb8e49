#pragma once
// An endpoint that counts what goes through it.
#include "chimera/comm/communicator.h"

namespace chimera::test {

class Counting final : public Communicator {
 public:
  explicit Counting(Communicator& comm) : comm_(comm) {}
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }
  std::string transport() const override { return comm_.transport(); }
  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    ++messages;
    sent_bytes += std::ssize(bytes);
    return comm_.send_start(peer, channel, bytes);
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    ++messages;
    return comm_.recv_start(peer, channel, bytes);
  }
  void wait(Request request, std::string_view what) override { comm_.wait(request, what); }
  void abandon() noexcept override { comm_.abandon(); }
  std::unique_ptr<Communicator> second_endpoint() override { return comm_.second_endpoint(); }
  void fail(std::exception_ptr error) noexcept override { comm_.fail(std::move(error)); }

  int messages = 0;  // posted here, sends and receives
  Index sent_bytes = 0;

 private:
  Communicator& comm_;
};

}  // namespace chimera::test
