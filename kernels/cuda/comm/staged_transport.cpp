// Messages of GPU memory through the host's endpoint: by page-locked memory, or, where that
// endpoint takes pointers to GPU memory, directly.
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "device/back_off.h"
#include "device/launch.h"
#include "device/pinned_pool.h"
#include "transports.h"

namespace chimera {
namespace {

// A thread hands the host's endpoint what the GPU has made ready: so messages leave whatever their
// worker is doing or waiting for. It only posts; waits are the worker's.
class StagedCommunicator final : public DeviceCommunicator {
 public:
  // `host`: a reference, or of a second endpoint its owner.
  template <class Host>
  StagedCommunicator(Host&& host, CudaDevice& device, Stream stream,
                     const DeviceTransportSettings& settings)
      : DeviceCommunicator(std::forward<Host>(host), device, stream,
                           make_cuda_adder(device, stream)),
        cuda_(device),
        settings_(settings),
        name_(
            concat(settings.gpu_aware ? "GPU memory by " : "staged by ", this->host().transport())),
        pool_(device),
        thread_([this] { post_what_is_ready(); }) {}
  ~StagedCommunicator() override {
    StagedCommunicator::abandon();
    stop();
    try {
      device().synchronize();
    } catch (...) {  // a GPU that has failed reads nothing any more
    }
  }

  std::string transport() const override { return name_; }

  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    return start(peer, channel, const_cast<std::byte*>(bytes.data()), std::ssize(bytes), true);
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    return start(peer, channel, bytes.data(), std::ssize(bytes), false);
  }

  void wait(Request request, std::string_view what) override {
    if (request == 0) return;
    Message& message = find(request);
    wait_until_posted(message, what);
    host().wait(message.request, what);
    const bool received = !message.sends && message.pinned != nullptr;
    if (received) {
      const Stream copies = lane_of(message);
      device().await(*message.ready, copies);
      copy(message.data, message.pinned->memory, message.bytes, cudaMemcpyHostToDevice, copies);
      device().record(*message.ready, copies);
      device().await(*message.ready, stream());
      pool_.give_back(message.pinned, &copies);
    } else {
      pool_.give_back(message.pinned, nullptr);
    }
    release(message);
  }

  void abandon() noexcept override {
    {
      const std::lock_guard lock(mutex_);
      if (used_ == 0) return;
      stopping_ = true;
    }
    stop();
    host().fail(nullptr);
    host().abandon();
    try {
      device().synchronize();
    } catch (...) {  // a GPU that has failed does nothing any more
    }
  }

  // The GPU never waits for another worker: the host does, before it enqueues.
  void synchronize(std::string_view) override {
    throw_if_failed();
    device().synchronize();
  }
  std::unique_ptr<Communicator> second_endpoint() override {
    return std::make_unique<StagedCommunicator>(host().second_endpoint(), cuda_, Stream::Reductions,
                                                settings_);
  }

 private:
  struct Message {
    bool used = false, sends = false;
    bool posted = false;  // to the host's endpoint; under the mutex
    int peer = 0, channel = 0;
    std::byte* data = nullptr;
    Index bytes = 0;
    Pinned* pinned = nullptr;
    std::unique_ptr<Event> ready;  // what is sent may be read; the buffer may be written
    Request request = 0;           // of the host's endpoint
    Message* next = nullptr;       // in the queue
    std::uint32_t generation = 0;
    std::size_t index = 0;
  };

  Stream lane_of(const Message& message) const {
    if (stream() == Stream::Reductions) return stream();
    return (message.peer > rank()) == message.sends ? Stream::Down : Stream::Up;
  }
  void copy(void* to, const void* from, Index bytes, cudaMemcpyKind kind, Stream on) {
    check_cuda(cudaSetDevice(cuda_.ordinal()), "selecting the GPU");
    check_cuda(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, cuda_.stream(on)),
               "copying a message");
  }

  Request start(int peer, int channel, std::byte* data, Index bytes, bool sends) {
    ENSURE(peer >= 0 && peer < size(), "there is no worker ", peer, ": they are 0 to ", size() - 1);
    ENSURE(channel >= 0 && channel < kTags, "there is no channel ", channel);
    throw_if_failed();
    Message& message = take();
    message.sends = sends;
    message.posted = false;
    message.peer = peer;
    message.channel = channel;
    message.data = data;
    message.bytes = bytes;
    const bool staged = !settings_.gpu_aware;
    message.pinned = staged && bytes > 0 ? pool_.take(bytes) : nullptr;
    device().record(*message.ready, stream());
    if (message.pinned != nullptr && sends) {
      const Stream copies = lane_of(message);
      device().await(*message.ready, copies);
      copy(message.pinned->memory, data, bytes, cudaMemcpyDeviceToHost, copies);
      device().record(*message.ready, copies);
    }
    if (staged && !sends) {
      post(message);  // data is not touched before the wait
    } else {
      const std::lock_guard lock(mutex_);
      message.next = nullptr;
      (first_ == nullptr ? first_ : last_->next) = &message;
      last_ = &message;
      changed_.notify_all();
    }
    return Index{message.generation} << 32 | static_cast<Index>(message.index + 1);
  }

  // Sets request; `posted` is set by whoever holds the mutex.
  void post(Message& message) {
    std::byte* const data = message.pinned != nullptr ? message.pinned->memory : message.data;
    const auto bytes = static_cast<std::size_t>(message.bytes);
    message.request =
        message.sends ? host().send_start(message.peer, message.channel, std::span(data, bytes))
                      : host().recv_start(message.peer, message.channel, std::span(data, bytes));
    const std::lock_guard lock(mutex_);
    message.posted = true;
    changed_.notify_all();
  }

  // The thread's. Lanes come to their marks in the order of the queue, or nearly.
  void post_what_is_ready() {
    try {
      for (;;) {
        Message* next = nullptr;
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [this] { return stopping_ || first_ != nullptr; });
          if (stopping_) return;
          next = first_;
        }
        for (BackOff back_off; !device().reached(*next->ready); back_off.pause())
          if (is_stopping()) return;
        {
          const std::lock_guard lock(mutex_);
          if (stopping_) return;
          first_ = next->next;
        }
        post(*next);
      }
    } catch (const Aborted&) {  // the failure is known
    } catch (...) {
      host().fail(std::current_exception());
    }
  }
  bool is_stopping() {
    const std::lock_guard lock(mutex_);
    return stopping_;
  }
  void stop() noexcept {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  void wait_until_posted(Message& message, std::string_view what) {
    const double deadline = settings_.deadline_seconds * host().timeout_scale();
    Patience timeout_scale;
    std::unique_lock lock(mutex_);
    while (
        !changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return message.posted; })) {
      lock.unlock();
      throw_if_failed();
      ENSURE(timeout_scale.waited() < deadline, "waited ", deadline, " s for the GPU in ", what,
             " (the deadline is parallel.timeout_seconds)");
      lock.lock();
    }
  }

  Message& take() {
    if (free_.empty()) {
      messages_.emplace_back();
      messages_.back().index = messages_.size() - 1;
      messages_.back().ready = device().make_event();
      free_.push_back(&messages_.back());
    }
    Message& message = *free_.back();
    free_.pop_back();
    message.used = true;
    const std::lock_guard lock(mutex_);
    ++used_;
    return message;
  }
  void release(Message& message) {
    message.used = false;
    message.generation = (message.generation + 1) & 0x7fffffff;
    free_.push_back(&message);
    const std::lock_guard lock(mutex_);
    --used_;
  }
  Message& find(Request request) {
    const auto index = static_cast<std::size_t>((request & 0xffffffff) - 1);
    ENSURE(index < messages_.size() && messages_[index].used &&
               messages_[index].generation == request >> 32,
           "worker ", rank(), " waits for request ", request,
           ", which has ended or is not its own");
    return messages_[index];
  }

  CudaDevice& cuda_;
  const DeviceTransportSettings settings_;
  const std::string name_;
  PinnedPool pool_;
  std::deque<Message> messages_;  // which stay where they are
  std::vector<Message*> free_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Message *first_ = nullptr, *last_ = nullptr;  // the queue of what is posted when it is ready
  std::size_t used_ = 0;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_staged_communicator(
    Communicator& host, CudaDevice& device, const DeviceTransportSettings& settings) {
  return std::make_unique<StagedCommunicator>(host, device, Stream::Compute, settings);
}

}  // namespace chimera
