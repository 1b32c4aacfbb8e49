// Messages between memories of devices whose workers are threads of one process.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "chimera/comm/device_transport.h"
#include "parcel.h"

namespace chimera {
namespace {

// One end of a message. All marks that the other end waits for are of the sender's device, on which
// the copy is made.
class Shipment final : public Parcel {
 public:
  explicit Shipment(Device& device) : device_(device), ready_(device.make_event()) {}

  // What `stream` does with the buffer until now comes first; a send is made on `copies`.
  void post(std::byte* data, Stream stream, Stream copies) {
    data_ = data;
    copies_ = copies;
    moved_ = false;
    device_.record(*ready_, stream);
  }
  void move_to(Parcel& receiver, Index bytes) override {
    auto& to = static_cast<Shipment&>(receiver);
    for (std::unique_ptr<Event>* done : {&done_, &to.done_})
      if (!*done) *done = device_.make_event();
    device_.await(*ready_, copies_);
    device_.await(*to.ready_, copies_);
    if (bytes > 0) device_.copy(to.data_, data_, bytes, copies_);
    device_.record(*done_, copies_);
    device_.record(*to.done_, copies_);
    moved_ = to.moved_ = true;
  }
  // What `stream` is given from now on comes after the copy, if there is one.
  void hold(Stream stream) {
    if (moved_) device_.await(*done_, stream);
  }

 private:
  Device& device_;
  std::unique_ptr<Event> ready_, done_;
  std::byte* data_ = nullptr;
  Stream copies_ = Stream::Down;
  bool moved_ = false;
};

class CopiesCommunicator final : public DeviceCommunicator {
 public:
  // `host`: a reference, or of a second endpoint its owner.
  template <class Host>
  CopiesCommunicator(Host&& host, Device& device, Stream stream, const MakeAdder& make_adder)
      : DeviceCommunicator(std::forward<Host>(host), device, stream, make_adder(stream)),
        make_adder_(make_adder),
        parcels_(parcels_of(this->host())),
        idle_(static_cast<std::size_t>(2 * size())) {}

  ~CopiesCommunicator() override {
    if (!active_.empty()) CopiesCommunicator::abandon();  // the hub knows their parcels
  }

  std::string transport() const override { return "device copies"; }
  Request send_start(int peer, int channel, std::span<const std::byte> bytes) override {
    return start(peer, 0, const_cast<std::byte*>(bytes.data()), [&](Parcel& parcel) {
      return parcels_.send_parcel(peer, channel, parcel, std::ssize(bytes));
    });
  }
  Request recv_start(int peer, int channel, std::span<std::byte> bytes) override {
    return start(peer, 1, bytes.data(), [&](Parcel& parcel) {
      return parcels_.recv_parcel(peer, channel, parcel, std::ssize(bytes));
    });
  }
  void wait(Request request, std::string_view what) override {
    if (request == 0) return;
    host().wait(request, what);
    const auto at = std::ranges::find(active_, request, &Active::request);
    at->shipment->hold(stream());
    idle_[at->pool].push_back(std::move(at->shipment));
    if (at != std::prev(active_.end())) *at = std::move(active_.back());
    active_.pop_back();
  }

  // Copies that were waited for are before what the stream was given since.
  void abandon() noexcept override {
    host().abandon();
    if (active_.empty()) return;
    try {
      for (const Active& a : active_) a.shipment->hold(stream());
      device().synchronize();
    } catch (...) {  // a device that has failed does nothing any more
    }
  }
  // Each copy waits for nothing but work that has been enqueued.
  void synchronize(std::string_view) override {
    throw_if_failed();
    device().synchronize();
  }
  std::unique_ptr<Communicator> second_endpoint() override {
    return std::make_unique<CopiesCommunicator>(host().second_endpoint(), device(),
                                                Stream::Reductions, make_adder_);
  }

 private:
  struct Active {
    Request request;
    std::size_t pool;
    std::unique_ptr<Shipment> shipment;
  };

  static ParcelPost& parcels_of(Communicator& host) {
    auto* const post = dynamic_cast<ParcelPost*>(&host);
    ENSURE(post != nullptr, "devices copy from each other between threads of one process; with ",
           host.transport(), " set parallel.transport to nccl or mpi");
    return *post;
  }

  template <class Post>
  Request start(int peer, int side, std::byte* data, const Post& post) {
    ENSURE(peer >= 0 && peer < size(), "there is no worker ", peer, ": they are 0 to ", size() - 1);
    const auto pool = static_cast<std::size_t>(2 * peer + side);
    if (idle_[pool].empty()) idle_[pool].push_back(std::make_unique<Shipment>(device()));
    std::unique_ptr<Shipment> shipment = std::move(idle_[pool].back());
    idle_[pool].pop_back();
    const Stream copies = stream() == Stream::Reductions ? stream()
                          : peer > rank()                ? Stream::Down
                                                         : Stream::Up;
    shipment->post(data, stream(), copies);
    active_.push_back({0, pool, std::move(shipment)});
    const Request request = post(*active_.back().shipment);  // where this throws it may be posted
    return active_.back().request = request;
  }

  const MakeAdder make_adder_;
  ParcelPost& parcels_;
  // By peer and side: a done mark stays the sender's device's.
  std::vector<std::vector<std::unique_ptr<Shipment>>> idle_;
  std::vector<Active> active_;
};

}  // namespace

std::unique_ptr<DeviceCommunicator> make_copies_communicator(Communicator& host, Device& device,
                                                             MakeAdder make_adder) {
  if (!make_adder) make_adder = [](Stream) { return nullptr; };
  return std::make_unique<CopiesCommunicator>(host, device, Stream::Compute, make_adder);
}

}  // namespace chimera
