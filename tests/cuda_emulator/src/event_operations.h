#pragma once
// Events as operations of streams.
#include "race.h"
#include "stream.h"

namespace emulator {

class RecordOperation final : public Operation {
 public:
  explicit RecordOperation(std::shared_ptr<Record> record) : record_(std::move(record)) {}
  std::optional<std::string> run(Machine&, Stream&) override {
    record_->done = true;
    race::release(record_.get());
    record_->time = std::chrono::steady_clock::now();
    return std::nullopt;
  }
  std::string what() const override { return "an event's record"; }

 private:
  std::shared_ptr<Record> record_;
};

class WaitOperation final : public Operation {
 public:
  explicit WaitOperation(std::shared_ptr<Record> record) : record_(std::move(record)) {}
  bool ready() const override { return record_->done; }
  void blockers(std::vector<Stream*>& out) const override {
    if (!record_->done) out.push_back(record_->stream);
  }
  std::optional<std::string> run(Machine&, Stream&) override {
    race::acquire(record_.get());
    return std::nullopt;
  }
  std::string what() const override { return "a wait for an event"; }

 private:
  std::shared_ptr<Record> record_;
};

}  // namespace emulator
