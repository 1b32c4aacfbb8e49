// Equal order on both sides of every link and among all members of every group: what transports
// that match messages by their order, not by their name, rely on.
#include <algorithm>
#include <tuple>

#include "verify_state.h"

namespace chimera::schedule {
namespace {

struct Post {
  std::int64_t link;  // (source, destination), and the pipe where links are told apart by it
  int worker, index;
};
enum class Link { OfPipe, OfAllPipes };

std::vector<Post> posts(const Schedule& s, Op op, Link kind) {
  std::vector<Post> out;
  for (int w = 0; w < s.depth; ++w) {
    const std::vector<Instr>& body = s.programs[at(w)].body;
    for (int i = 0; i < static_cast<int>(body.size()); ++i) {
      const Instr& in = body[at(i)];
      if (in.op != op) continue;
      const int source = op == Op::SendStart ? w : in.peer,
                destination = op == Op::SendStart ? in.peer : w;
      const std::int64_t link = std::int64_t{source} * s.depth + destination;
      out.push_back({kind == Link::OfPipe ? link * s.pipes() + in.pipe : link, w, i});
    }
  }
  std::ranges::stable_sort(out, {}, &Post::link);
  return out;
}

void check_links(const Schedule& s, Link kind) {
  const std::vector<Post> sends = posts(s, Op::SendStart, kind),
                          receives = posts(s, Op::RecvStart, kind);
  const auto instr = [&](const Post& post) -> const Instr& {
    return s.programs[at(post.worker)].body[at(post.index)];
  };
  const std::size_t common = std::min(sends.size(), receives.size());
  for (std::size_t i = 0; i < std::max(sends.size(), receives.size()); ++i) {
    if (i >= common || sends[i].link != receives[i].link) {
      const bool lone_send =
          i >= receives.size() || (i < sends.size() && sends[i].link < receives[i].link);
      const Post& post = lone_send ? sends[i] : receives[i];
      fail_at(s, post.worker, post.index,
              concat("worker ", instr(post).peer,
                     lone_send ? " never receives it" : " never sends it", ": the link has more ",
                     lone_send ? "sends than receives" : "receives than sends"));
    }
    const Instr &send = instr(sends[i]), &receive = instr(receives[i]);
    const int stage = send.stage + (send.message == Message::Activation ? 1 : -1);
    if (std::tuple(send.pipe, send.message, send.micro, send.count, send.step, stage) !=
        std::tuple(receive.pipe, receive.message, receive.micro, receive.count, receive.step,
                   receive.stage))
      fail_at(s, receives[i].worker, receives[i].index,
              concat("what arrives here is sent by ", place_of(s, sends[i].worker, sends[i].index),
                     ": the order on this link differs between its two ends"));
  }
}

struct GroupPost {
  Op op;
  int group, step, index;
  bool matches(const GroupPost& other) const {
    return op == other.op && group == other.group && step == other.step;
  }
};

bool is_collective_start(Op op) {
  return op == Op::AllReduceStart || op == Op::ReduceScatterStart || op == Op::GradNorm ||
         op == Op::AllGatherStart;
}

void check_groups(const Schedule& s) {
  std::vector<std::vector<GroupPost>> posts(at(s.depth));
  std::vector<std::vector<bool>> member(s.groups.size(), std::vector<bool>(at(s.depth)));
  for (const Group& group : s.groups)
    for (const Holder& h : group.holders) member[at(group.stage)][at(h.worker)] = true;
  for (int w = 0; w < s.depth; ++w) {
    const std::vector<Instr>& body = s.programs[at(w)].body;
    for (int i = 0; i < static_cast<int>(body.size()); ++i)
      if (const Instr& in = body[at(i)]; is_collective_start(in.op))
        posts[at(w)].push_back({in.op, in.group, in.step, i});
  }
  const auto shared = [&](int worker, int with) {
    std::vector<GroupPost> out;
    for (const GroupPost& post : posts[at(worker)])
      if (member[at(post.group)][at(with)]) out.push_back(post);
    return out;
  };
  for (int a = 0; a < s.depth; ++a)
    for (int b = a + 1; b < s.depth; ++b) {
      const std::vector<GroupPost> of_a = shared(a, b), of_b = shared(b, a);
      for (std::size_t i = 0; i < std::max(of_a.size(), of_b.size()); ++i) {
        if (i < std::min(of_a.size(), of_b.size()) && of_a[i].matches(of_b[i])) continue;
        const int worker = i < of_b.size() ? b : a;
        const int index = i < of_b.size() ? of_b[i].index : of_a[i].index;
        const int other = i < of_b.size() ? a : b;
        const bool both = i < std::min(of_a.size(), of_b.size());
        fail_at(s, worker, index,
                both ? concat("worker ", other, " has at this point ",
                              place_of(s, other, of_a[i].index),
                              ": members of common groups must reduce in one order")
                     : concat("worker ", other, " holds the stage, too, and takes no part"));
      }
    }
}

}  // namespace

void verify_order(const Schedule& s) {
  check_links(s, Link::OfPipe);
  check_links(s, Link::OfAllPipes);
  check_groups(s);
}

}  // namespace chimera::schedule
