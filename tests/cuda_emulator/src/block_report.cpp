// What a kernel did wrong, in words.
#include <algorithm>
#include <cstdio>

#include "block_runner.h"
#include "chimera/base/check.h"
#include "race.h"

namespace emulator {

using chimera::concat;

namespace {

std::string to_string(const uint3& v) { return concat("(", v.x, ", ", v.y, ", ", v.z, ")"); }

std::string to_string(const Place& place) {
  std::string file = place.file_name();
  return concat(file.substr(file.rfind('/') + 1), ":", place.line());
}

const char* name(WarpKind kind) {
  switch (kind) {
    case WarpKind::Barrier: return "__syncwarp";
    case WarpKind::Shuffle: return "a shuffle";
    case WarpKind::Vote: return "a vote";
    case WarpKind::Matrix: return "a wmma operation";
  }
  return "?";
}

std::string hex(unsigned value) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

}  // namespace

std::string BlockRunner::describe(const Thread& thread) const {
  std::string text = concat("thread ", to_string(thread.thread));
  switch (thread.state) {
    case State::New: return text + " has not started";
    case State::Ready: return text + " runs";
    case State::AtBarrier:
      return concat(text, " waits in __syncthreads at ", to_string(thread.place));
    case State::AtWarp:
      return concat(text, " waits in ", name(thread.kind), " with mask ", hex(thread.mask), " at ",
                    to_string(thread.place));
    case State::Returned: return text + " has returned";
  }
  return text;
}

void BlockRunner::say_deadlock() {
  // One thread of each kind of wait says enough.
  std::string text = "threads wait for each other for ever: ";
  std::vector<std::string> seen;
  for (const Thread& thread : threads_) {
    if (thread.state != State::AtBarrier && thread.state != State::AtWarp) continue;
    const std::string key =
        concat(static_cast<int>(thread.state), " ", thread.mask, " ", to_string(thread.place));
    if (std::find(seen.begin(), seen.end(), key) != seen.end()) continue;
    if (!seen.empty()) text += "; ";
    text += describe(thread);
    seen.push_back(key);
    if (seen.size() == 4) break;
  }
  say(text);
}

void BlockRunner::say_wrong_mask(const Thread& thread) {
  say(concat(name(thread.kind), " with mask ", hex(thread.mask),
             ", which does not name the calling lane ", number(thread) % 32, " at ",
             to_string(thread.place)));
}

std::string BlockRunner::where() const {
  std::string text = concat("block ", to_string(current_block.block));
  if (current_ != nullptr) text += concat(", thread ", to_string(current_->thread));
  return text;
}

void BlockRunner::say(const std::string& what) {
  race::ignore(true);  // given back by another
  error_ = concat(where(), ": ", what);
  race::ignore(false);
}

void BlockRunner::fail(const char* what, const Place& place) {
  say(concat(what, " at ", to_string(place)));
  stop();
}

}  // namespace emulator
