#include "block_runner.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "chimera/base/check.h"
#include "race.h"

namespace emulator {

using chimera::concat;

constinit ThreadView* current_thread = nullptr;
constinit BlockView current_block;

namespace {

constinit BlockRunner* active = nullptr;

uint3 position(unsigned i, const dim3& extent) {
  return {i % extent.x, i / extent.x % extent.y, i / (extent.x * extent.y)};
}

}  // namespace

BlockRunner& runner() { return *active; }
bool kernel_runs() { return active != nullptr; }

BlockRunner::BlockRunner() = default;
BlockRunner::~BlockRunner() {
  for (void* context : contexts_) race::destroy(context);
}

std::optional<std::string> BlockRunner::run(const KernelLaunch& launch, std::uint64_t seed) {
  launch_ = &launch;
  error_.reset();
  active = this;
  const std::size_t count = std::size_t{launch.block.x} * launch.block.y * launch.block.z;
  const std::size_t blocks = std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  Random random(seed);
  make_order(block_order_, blocks, seed, random);
  make_thread_order(thread_order_, count, seed, random);
  threads_.assign(count, Thread());
  for (unsigned i = 0; i < count; ++i) {
    threads_[i].thread = position(i, launch.block);
    threads_[thread_order_[i]].rank = i;
  }
  current_block.threads = launch.block;
  current_block.grid = launch.grid;
  prepare_contexts(count);
  for (const unsigned b : block_order_) {
    current_block.block = position(b, launch.grid);
    run_block();
    if (error_) break;
  }
  race::acquire(&alive_);  // blocks are not ordered among each other
  current_thread = nullptr;
  active = nullptr;
  return error_;
}

void BlockRunner::run_block() {
  const std::size_t count = threads_.size();
  renew_static_shared();
  dynamic_.prepare(launch_->shared_bytes);
  warps_.assign((count + 31) / 32, Warp());
  for (std::size_t i = 0; i < count; ++i) {
    threads_[i].state = State::New;
    warps_[i / 32].existing |= 1u << i % 32;
  }
  cursor_ = arrived_ = 0;
  alive_ = count;
  counting_ = 0;
  phase_ = 0;
  idle_.insert(idle_.begin(), spent_.begin(), spent_.end());
  spent_.clear();
  race::release(&phase_);
  running_ = &idle_fiber();
  main_.switch_to(*running_);
  if (error_) {
    running_->restart();
    idle_.push_back(running_);
  } else if (dynamic_.overrun()) {
    current_ = nullptr;
    say(concat("writes behind the ", launch_->shared_bytes, " bytes of its dynamic shared memory"));
  }
}

// Each fiber runs threads from their first statement to their last; where one must wait, another
// fiber goes on. So a kernel without barriers needs one fiber and no switch.
void BlockRunner::fiber_entry() {
  Fiber::arrived();
  active->run_threads();
}

void BlockRunner::run_threads() {
  Fiber* const me = running_;
  for (;;) {
    bool used = false;
    Thread* next = first_ready();
    while (next != nullptr && next->state == State::New && !(race::kOn && used)) {
      run_thread(*next, *me);
      used = true;
      next = first_ready();
    }
    (race::kOn ? spent_ : idle_).push_back(me);
    leave(*me);
  }
}

void BlockRunner::run_thread(Thread& thread, Fiber& fiber) {
  thread.fiber = &fiber;
  thread.state = State::Ready;
  current_ = &thread;
  current_thread = &thread;
  race::acquire(&phase_);
  try {
    launch_->call->run_thread();
  } catch (const std::exception& e) {
    say(concat("exception: ", e.what()));  // the handler must end before the fiber does
  }
  if (error_) stop();
  race::release(&alive_);
  thread_returned(thread);
}

void BlockRunner::thread_returned(Thread& thread) {
  const unsigned i = number(thread);
  thread.state = State::Returned;
  --alive_;
  race::release(&tokens_[phase_ % 2]);
  Warp& warp = warps_[i / 32];
  warp.existing &= ~(1u << i % 32);
  for (unsigned lane = 0; warp.waiting != 0 && lane < 32; ++lane)
    if (warp.waiting >> lane & 1u) complete(i / 32, lane);
  if (alive_ > 0 && arrived_ == alive_) release_barrier();
}

// Continues the first thread that can run; returns when `me` has been continued.
void BlockRunner::leave(Fiber& me) {
  Fiber* to = &main_;
  if (Thread* next = first_ready()) {
    if (next->state == State::New) {
      to = &idle_fiber();
    } else {
      current_ = next;
      current_thread = next;
      to = next->fiber;
    }
  } else if (alive_ > 0) {
    say_deadlock();
    stop();
  }
  if (to == &me) return;
  running_ = to;
  me.switch_to(*to);
}

void BlockRunner::wait(Thread& me) {
  leave(*me.fiber);
  current_ = &me;
  current_thread = &me;
}

// Strictly by rank: the first warp runs as far ahead of the others as barriers let it.
BlockRunner::Thread* BlockRunner::first_ready() {
  for (; cursor_ < threads_.size(); ++cursor_) {
    Thread& thread = threads_[thread_order_[cursor_]];
    if (thread.state == State::Ready || thread.state == State::New) return &thread;
  }
  return nullptr;
}

Fiber& BlockRunner::idle_fiber() {
  if (idle_.empty()) return add_fiber();
  Fiber& fiber = *idle_.back();
  idle_.pop_back();
  return fiber;
}

Fiber& BlockRunner::add_fiber() {
  fibers_.push_back(std::make_unique<Fiber>(fiber_entry, static_cast<unsigned>(fibers_.size())));
  return *fibers_.back();
}

// Here, where the sanitizer ignores what is allocated.
void BlockRunner::prepare_contexts(std::size_t count) {
  tokens_.resize(std::max(tokens_.size(), 2 + 2 * count));
  if (!race::kOn) return;
  main_.set_context(race::current());
  count += 32;  // so that a thread is not always the one of the block before at the same place
  idle_.reserve(count);
  spent_.reserve(count);
  while (fibers_.size() < count) {
    Fiber& fiber = add_fiber();
    contexts_.push_back(race::create());
    fiber.set_context(contexts_.back());
    idle_.push_back(&fiber);
  }
}

void BlockRunner::barrier(const Place& place) {
  Thread& me = *current_;
  me.state = State::AtBarrier;
  me.place = place;
  const char* token = &tokens_[phase_ % 2];
  race::release(token);
  if (++arrived_ == alive_) release_barrier();
  wait(me);  // the last to come waits too: every phase runs in the same order
  race::acquire(token);
}

int BlockRunner::count(bool predicate, const Place& place) {
  counting_ += predicate;
  barrier(place);
  return counted_;
}

void BlockRunner::release_barrier() {
  const Thread* first = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.state != State::AtBarrier) continue;
    if (first == nullptr) first = &thread;
    if (thread.place.line() != first->place.line() ||
        std::strcmp(thread.place.file_name(), first->place.file_name()) != 0) {
      say("divergent barrier: " + describe(*first) + ", but " + describe(thread) +
          "; every thread of a block must reach the same __syncthreads()");
      stop();
    }
  }
  for (Thread& thread : threads_)
    if (thread.state == State::AtBarrier) thread.state = State::Ready;
  arrived_ = cursor_ = 0;
  ++phase_;
  counted_ = counting_;
  counting_ = 0;
}

void BlockRunner::warp_operation(WarpKind kind, unsigned mask, void* argument, WarpAction action,
                                 const Place& place) {
  Thread& me = *current_;
  const unsigned i = number(me), lane = i % 32;
  me.kind = kind;
  me.mask = mask;
  me.argument = argument;
  me.action = action;
  me.place = place;
  if ((mask >> lane & 1u) == 0) {
    say_wrong_mask(me);
    stop();
  }
  me.state = State::AtWarp;
  warps_[i / 32].waiting |= 1u << lane;
  if (kind == WarpKind::Barrier) race::release(token_of(me));
  if (!complete(i / 32, lane)) wait(me);
  if (kind == WarpKind::Barrier) race::acquire(me.token);
}

// Carries out the operation that `lane` waits in, if all its lanes are there.
bool BlockRunner::complete(unsigned warp_number, unsigned lane) {
  Warp& warp = warps_[warp_number];
  Thread* const first = &threads_[std::size_t{warp_number} * 32];
  const Thread& me = first[lane];
  const unsigned members = me.mask & warp.existing;
  if ((warp.waiting & members) != members) return false;
  void* lanes[32] = {};
  for (unsigned i = 0; i < 32; ++i) {
    if ((members >> i & 1u) == 0) continue;
    const Thread& other = first[i];
    if (other.kind != me.kind || other.mask != me.mask) return false;
    if (me.kind != WarpKind::Barrier && other.place.line() != me.place.line()) {
      say("divergent warp: " + describe(me) + ", but " + describe(other) +
          "; all lanes of the mask must execute the same operation");
      stop();
    }
    lanes[i] = other.argument;
  }
  if (me.action != nullptr) me.action(lanes, members);
  if (me.kind == WarpKind::Barrier) order_warp(first, members);
  warp.waiting &= ~members;
  for (unsigned i = 0; i < 32; ++i) {
    if ((members >> i & 1u) == 0) continue;
    first[i].state = State::Ready;
    cursor_ = std::min(cursor_, std::size_t{first[i].rank});
  }
  return true;
}

const char* BlockRunner::token_of(const Thread& thread) const {
  return &tokens_[2 + 2 * number(thread) + thread.turn % 2];
}

// For the sanitizer: what the members did before this __syncwarp comes before what they do after
// it.
void BlockRunner::order_warp(Thread* lanes, unsigned members) {
  if (!race::kOn) return;
  for (unsigned i = 0; i < 32; ++i)
    if (members >> i & 1u) race::acquire(token_of(lanes[i]));
  const char* token = token_of(lanes[std::countr_zero(members)]);
  race::release(token);
  for (unsigned i = 0; i < 32; ++i) {
    if ((members >> i & 1u) == 0) continue;
    lanes[i].token = token;
    ++lanes[i].turn;
  }
}

// Leaves the block for good, after say(). The stacks, this one too, are forgotten without an end:
// device code owns nothing, and callers must hold no object either.
void BlockRunner::stop() {
  idle_.clear();
  spent_.clear();
  Fiber* const me = running_;
  for (const auto& fiber : fibers_) {
    if (fiber.get() == me) continue;
    fiber->restart();
    idle_.push_back(fiber.get());
  }
  me->switch_to(main_);
  std::abort();
}

int BlockRunner::lane() const { return static_cast<int>(number(*current_) % 32); }

// ---- block.h

void* dynamic_shared() { return active->dynamic_shared(); }
void block_barrier(const Place& place) { active->barrier(place); }
int block_count(bool predicate, const Place& place) { return active->count(predicate, place); }
void warp_operation(WarpKind kind, unsigned mask, void* argument, WarpAction action,
                    const Place& place) {
  active->warp_operation(kind, mask, argument, action, place);
}
int lane_id() { return active->lane(); }
void kernel_error(const char* what, const Place& place) { active->fail(what, place); }

}  // namespace emulator
