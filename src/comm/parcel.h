#pragma once
// A message between threads of one process that is no host memory: the hub matches its two ends as
// it does all others, and what moves is theirs.
#include "chimera/comm/communicator.h"

namespace chimera {

// One end.
class Parcel {
 public:
  virtual ~Parcel() = default;
  // Called once on the sender's end, when both are posted, in the thread of either and outside the
  // hub's lock. When it returns both requests are done.
  virtual void move_to(Parcel& receiver, Index bytes) = 0;
};

// What endpoints of one process offer beside Communicator. The parcel must stay until its request
// is waited for.
class ParcelPost {
 public:
  virtual ~ParcelPost() = default;
  virtual Communicator::Request send_parcel(int peer, int channel, Parcel& parcel, Index bytes) = 0;
  virtual Communicator::Request recv_parcel(int peer, int channel, Parcel& parcel, Index bytes) = 0;
};

}  // namespace chimera
